"""Old beside new, in words and numbers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from statistics import geometric_mean
from typing import Any

from fib_rmsnorm.analysis.comparing.comparison import Comparisons, SolutionComparison, Verdict
from fib_rmsnorm.analysis.comparing.difference import session_deviation
from fib_rmsnorm.analysis.comparing.gate import Unjudged, find_unjudged
from fib_rmsnorm.analysis.trace_record import TraceRecord
from fib_rmsnorm.reports.text.document import Doubt, Heading, Part
from fib_rmsnorm.reports.text.tables import Grid
from fib_rmsnorm.reports.text.units import count, format_change, format_changes, format_latency

_ORDER: tuple[Verdict, ...] = ("now fails", "slower", "suspect", "faster", "no different")


def describe_comparisons(
    found: Comparisons, max_slowdown: float | None, unjudged: Sequence[Unjudged]
) -> Iterator[Part]:
    """A table for each Definition and device, the verdict, how sure it is, and what a gate at `max_slowdown` says."""
    groups: dict[str, list[SolutionComparison]] = {}
    for each in found.comparisons:
        groups.setdefault(f"{each.record.definition} on {_whose(each)}", []).append(each)
    for title, members in groups.items():
        yield Heading(title)
        yield Grid(
            ("solution", "workload", ">old", ">new", ">runs", ">latency", ">interval", "verdict"),
            [_row(each, found.title(each)) for each in members],
        )
    yield _summary(found)
    yield " ".join(_how_sure(found))
    for note in found.notes:
        yield Doubt(note)
    told = [each.comparison for each in unjudged]  # at the end
    for each in found.comparisons:
        if each.verdict == "suspect" and each not in told:
            yield Doubt(f"SUSPECT {found.name(each)}: {each.why_suspect}")
        if each.left_out:
            yield Doubt(f"Left out as SUSPECT: {found.name(each)}: {_name_left_out(each)}")
    yield from _regressions(found, max_slowdown, unjudged)


def _regressions(found: Comparisons, max_slowdown: float | None, unjudged: Sequence[Unjudged]) -> Iterator[Part]:
    """State the limit even if nothing is found: 5 means 500%, which its author may not have meant."""
    regressions = found.regressions(max_slowdown or 0.0)
    limit = f" by more than {100 * max_slowdown:.4g}%" if max_slowdown else ""
    slower = [found.name(each) for each in regressions if each.verdict == "slower"]
    failing = [f"{found.name(each)} ({each.record.status})" for each in regressions if each.verdict == "now fails"]
    if slower:
        yield Doubt(f"Regression: slower{limit}: {', '.join(slower)}")
    if failing:
        yield Doubt(f"Regression: now failing: {', '.join(failing)}")
    if not regressions and max_slowdown is not None:
        total = len(found.comparisons)
        doubtful = len(find_unjudged(found, max_slowdown))
        if doubtful < total:
            which = f"Among the other {total - doubtful}, no" if doubtful else "No"
            yield f"{which} regression: nothing is slower{limit}, and nothing now fails."
        if accepted := doubtful - len(unjudged):
            yield f"Accepted by --allow: {accepted} of {total} that cannot be judged; they do not fail."
    for each in unjudged:
        yield Doubt(f"Not judged: {found.name(each.comparison)}: {each.why}")


def _name_left_out(each: SolutionComparison) -> str:
    return "; ".join(f"{run.side} run {run.number} of {run.runs}: {run.record.suspect[0]}" for run in each.left_out)


def _whose(each: SolutionComparison) -> str:
    old, new = each.old[-1], each.new[-1]
    sides = dict.fromkeys(
        f"{run.hardware}, {run.timer or 'timer not recorded'}" for run in (old, new) if run.latency_ms
    )
    return " against ".join(sides)


def _row(each: SolutionComparison, title: str) -> Sequence[str]:
    return (
        each.record.solution,
        title,
        _latency(each.old),
        _latency(each.new),
        f"{len(each.old)}, {len(each.new)}",
        format_change(each.ratio.value) if each.ratio else "",
        format_changes(each.ratio.low, each.ratio.high) if each.ratio else "",
        each.verdict,
    )


def _latency(runs: Sequence[Any]) -> str:
    latencies = [run.latency_ms for run in runs if run.latency_ms]
    return format_latency(geometric_mean(latencies)) if latencies else ""  # whose ratio is the difference told


def _summary(found: Comparisons) -> str:
    verdicts = Counter(each.verdict for each in found.comparisons)
    told = ", ".join(f"{verdicts[verdict]} {verdict}" for verdict in _ORDER if verdicts[verdict])
    return f"{len(found.comparisons)} compared: {told}."


def _how_sure(found: Comparisons) -> Iterator[str]:
    resolutions = sorted(
        each.resolution for each in found.comparisons if each.resolution is not None and each.verdict != "suspect"
    )
    if resolutions:
        low, high = f"{resolutions[0]:.1%}", f"{resolutions[-1]:.1%}"
        yield f"A difference below {low if low == high else f'{low} to {high}'} cannot be detected."
    number = len(resolutions)
    if number > 1:
        yield (
            f"All {number} intervals together have a confidence of 95%"
            f" (each has {found.confidence:.2%}, by Sidak's correction)."
        )
    elif number:
        yield f"The interval is a {found.confidence:.0%} interval."
    apart = [each for each in found.comparisons if each.ratio and not each.is_of_one_session]
    yield _drift_text(found, apart)
    if apart:
        yield "To detect smaller differences, bench both sides on one device without a restart, or use --measure."
    elif any(min(len(each.old), len(each.new)) < 2 for each in found.comparisons):
        yield "Two or more benches of each side detect smaller differences."


def _drift_text(found: Comparisons, apart: Sequence[SolutionComparison]) -> str:
    """How large the drifts are, and where that comes from."""
    source = "assumed, since there are no repeated runs"
    if found.drift.repeats:
        source = f"from {count(found.drift.repeats, 'repeated run')} and the usual drift"
    text = f"A median drifts from run to run by {_range(found.drift.deviation, found.comparisons)} ({source})"
    if not apart:
        return f"{text}; the intervals include this."
    kind = (
        "of different sessions"
        if all(_knows_sessions(each) for each in apart)
        else "not known to be of the same session"
    )
    return (
        f"{text}, and by {_range(session_deviation, apart)} from session to session (another device, or a"
        f" restarted machine). OLD and NEW are {kind}, so the intervals include both."
    )


def _range(deviation: Callable[[TraceRecord], float], comparisons: Sequence[SolutionComparison]) -> str:
    """The range of a standard deviation over all runs that have a latency."""
    timed = [run for each in comparisons for run in (*each.old, *each.new) if run.latency_ms]
    low, high = (f"{choose(map(deviation, timed)):.1%}" for choose in (min, max))
    return low if low == high else f"{low} to {high}"


def _knows_sessions(each: SolutionComparison) -> bool:
    return all(run.device_session for run in (*each.old, *each.new))


def comparisons_json(found: Comparisons, max_slowdown: float | None, unjudged: Sequence[Unjudged]) -> str:
    """The same in numbers."""
    reasons = {id(each.comparison): each.why for each in unjudged}
    regressions = found.regressions(max_slowdown or 0.0)
    record = {
        "drift": asdict(found.drift),
        "confidence_of_each": found.confidence,
        "max_slowdown": max_slowdown or 0.0,
        "regressions": len(regressions),
        "unjudged": len(unjudged),
        "notes": found.notes,
        "comparisons": [
            {
                "definition": each.record.definition,
                "solution": each.record.solution,
                "workload": each.record.workload,
                "axes": each.record.axes,
                "scalars": each.record.scalars,
                "hardware": each.record.hardware,
                "timer": each.record.timer,
                "old_ms": [run.latency_ms for run in each.old],
                "new_ms": [run.latency_ms for run in each.new],
                "left_out": [
                    {
                        "side": run.side,
                        "run": run.number,
                        "latency_ms": run.record.latency_ms,
                        "suspect": run.record.suspect,
                    }
                    for run in each.left_out
                ],
                "ratio": asdict(each.ratio) if each.ratio else None,
                "resolution": each.resolution,
                "is_of_one_session": each.is_of_one_session,
                "verdict": each.verdict,
                "is_regression": each in regressions,
                "unjudged": reasons.get(id(each)),
            }
            for each in found.comparisons
        ],
    }
    return json.dumps(record, indent=2) + "\n"
