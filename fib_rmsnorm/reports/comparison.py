"""Old beside new, in words and numbers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from statistics import geometric_mean
from typing import Any

from fib_rmsnorm.analysis.comparing.comparison import Comparisons, SolutionComparison, Verdict, latencies
from fib_rmsnorm.analysis.comparing.difference import session_deviation
from fib_rmsnorm.analysis.estimate import RunLatency
from fib_rmsnorm.reports.text.document import Doubt, Heading, Part
from fib_rmsnorm.reports.text.tables import Grid
from fib_rmsnorm.reports.text.units import (
    count,
    estimate_record,
    finite,
    format_apart,
    format_change,
    format_changes,
    format_latency,
)

_ORDER: tuple[Verdict, ...] = ("now fails", "slower", "faster", "tie")


def describe_comparisons(
    found: Comparisons, max_slowdown: float | None, unjudged: Sequence[SolutionComparison]
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
    for each in found.comparisons:
        for reason in dict.fromkeys(reason for run in (*each.old, *each.new) for reason in run.noisy):
            yield Doubt(f"Noisy: {found.name(each)}: {reason}")
    yield from _regressions(found, max_slowdown, unjudged)


def _regressions(
    found: Comparisons, max_slowdown: float | None, unjudged: Sequence[SolutionComparison]
) -> Iterator[Part]:
    """State the limit even if nothing is found: 5 means 500%, which its author may not have meant."""
    regressions = found.regressions(max_slowdown or 0.0)
    limit = f" by more than {100 * max_slowdown:.4g}%" if max_slowdown else ""
    slower = [found.name(each) for each in regressions if each.verdict == "slower"]
    failing = [f"{found.name(each)} ({each.record.status})" for each in regressions if each.verdict == "now fails"]
    if slower:
        yield Doubt(f"Regression: slower{limit}: {', '.join(slower)}")
    if failing:
        yield Doubt(f"Regression: now failing: {', '.join(failing)}")
    if not regressions and max_slowdown is not None and len(unjudged) < len(found.comparisons):
        which = f"Among the other {len(found.comparisons) - len(unjudged)}, no" if unjudged else "No"
        yield f"{which} regression: nothing is slower{limit}, and nothing now fails."
    if unjudged:
        yield f"{len(unjudged)} of {len(found.comparisons)} not judged: ties that may hide a slowdown{limit}."
    for each in unjudged:
        yield Doubt(f"Not judged: {found.name(each)} could still be up to {_apart(each)} apart")


def _apart(each: SolutionComparison) -> str:
    return format_apart(each.ratio.apart) if each.ratio else ""


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
        f"tie, up to {_apart(each)} apart" if each.verdict == "tie" else each.verdict,
    )


def _latency(runs: Sequence[Any]) -> str:
    latencies = [run.latency_ms for run in runs if run.latency_ms]
    return format_latency(geometric_mean(latencies)) if latencies else ""  # whose ratio is the difference told


def _summary(found: Comparisons) -> str:
    verdicts = Counter(each.verdict for each in found.comparisons)
    told = ", ".join(f"{verdicts[verdict]} {verdict}" for verdict in _ORDER if verdicts[verdict])
    return f"{len(found.comparisons)} compared: {told}."


def _how_sure(found: Comparisons) -> Iterator[str]:
    timed = [each for each in found.comparisons if each.ratio]
    resolutions = sorted(each.resolution for each in timed if each.resolution is not None)
    if resolutions:
        low, high = format_apart(resolutions[0]), format_apart(resolutions[-1])
        yield f"A difference below {low if low == high else f'{low} to {high}'} cannot be detected."
    if len(timed) > 1:
        yield (
            f"All {len(timed)} intervals together have a confidence of 95%"
            f" (each has {found.confidence:.2%}, by Sidak's correction)."
        )
    elif timed:
        yield "The interval is a 95% interval."
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
        source = f"from {count(found.drift.repeats, 'repeated run')} and what is usual"
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


def _range(deviation: Callable[[RunLatency], float], comparisons: Sequence[SolutionComparison]) -> str:
    """The range of a standard deviation over all runs that have a latency."""
    timed = [run for each in comparisons for run in latencies((*each.old, *each.new))]
    low, high = (f"{choose(map(deviation, timed)):.1%}" for choose in (min, max))
    return low if low == high else f"{low} to {high}"


def _knows_sessions(each: SolutionComparison) -> bool:
    return all(run.device_session for run in (*each.old, *each.new))


def comparisons_json(found: Comparisons, max_slowdown: float | None, unjudged: Sequence[SolutionComparison]) -> str:
    """The same in numbers."""
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
                "ratio": estimate_record(each.ratio),
                "resolution": finite(each.resolution),
                "is_of_one_session": each.is_of_one_session,
                "verdict": each.verdict,
                "is_regression": each in regressions,
                "is_judged": each not in unjudged,
                "apart": finite(each.ratio.apart) if each.ratio else None,
                "noisy": [run.noisy for run in (*each.old, *each.new)],
            }
            for each in found.comparisons
        ],
    }
    return json.dumps(record, indent=2) + "\n"
