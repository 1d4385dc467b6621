"""Old beside new, in words and numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from statistics import geometric_mean
from typing import Any

from fib_rmsnorm.analysis.comparing.comparison import Comparisons, SolutionComparison, Verdict, latencies
from fib_rmsnorm.analysis.comparing.difference import session_deviation
from fib_rmsnorm.analysis.trace_record import RunLatency
from fib_rmsnorm.reports.text.data import pick
from fib_rmsnorm.reports.text.document import Doubt, Grid, Heading, Part
from fib_rmsnorm.reports.text.units import count, format_apart, format_change, format_changes, format_latency

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
    verdicts = Counter(each.verdict for each in found.comparisons)
    told = ", ".join(f"{verdicts[verdict]} {verdict}" for verdict in _ORDER if verdicts[verdict])
    yield f"{len(found.comparisons)} compared: {told}."
    yield " ".join(_how_sure(found))
    yield from map(Doubt, found.notes)
    for each in found.comparisons:
        for reason in dict.fromkeys(reason for run in (*each.old, *each.new) for reason in run.noisy):
            yield Doubt(f"Noisy: {found.name(each)}: {reason}")
    yield from _regressions(found, max_slowdown, unjudged)


def _whose(each: SolutionComparison) -> str:
    sides = (
        f"{run.hardware}, {run.timer or 'timer not recorded'}" for run in (each.old[-1], each.new[-1]) if run.latency_ms
    )
    return " against ".join(dict.fromkeys(sides))


def _row(each: SolutionComparison, title: str) -> Sequence[str]:
    ratio = each.ratio
    return (
        each.record.solution,
        title,
        *(
            format_latency(geometric_mean(timed)) if (timed := [r.latency_ms for r in side if r.latency_ms]) else ""
            for side in (each.old, each.new)
        ),
        f"{len(each.old)}, {len(each.new)}",
        format_change(ratio.value) if ratio else "",
        format_changes(ratio.low, ratio.high) if ratio else "",
        f"tie, up to {format_apart(ratio.apart)} apart" if ratio and each.verdict == "tie" else each.verdict,
    )


def _how_sure(found: Comparisons) -> Iterator[str]:
    timed = [each for each in found.comparisons if each.ratio]
    if resolutions := sorted(each.resolution for each in timed if each.resolution is not None):
        low, high = format_apart(resolutions[0]), format_apart(resolutions[-1])
        yield f"A difference below {low if low == high else f'{low} to {high}'} cannot be detected."
    if len(timed) > 1:
        yield (
            f"All {len(timed)} intervals together have a confidence of 95%"
            f" (each has {found.confidence:.2%}, by Sidak's correction)."
        )
    elif timed:
        yield "The interval is a 95% interval."
    source = "assumed, since there are no repeated runs"
    if found.drift.repeats:
        source = f"from {count(found.drift.repeats, 'repeated run')} and what is usual"
    drift = f"A median drifts from run to run by {_range(found.drift.deviation, found.comparisons)} ({source})"
    apart = [each for each in timed if not each.is_of_one_session]
    if not apart:
        yield f"{drift}; the intervals include this."
        if any(min(len(each.old), len(each.new)) < 2 for each in found.comparisons):
            yield "Two or more benches of each side detect smaller differences."
        return
    is_known = all(run.device_session for each in apart for run in (*each.old, *each.new))
    sessions = "of different sessions" if is_known else "not known to be of the same session"
    yield (
        f"{drift}, and by {_range(session_deviation, apart)} from session to session (another device, or a"
        f" restarted machine). OLD and NEW are {sessions}, so the intervals include both."
        " To detect smaller differences, bench both sides on one device without a restart, or use --measure."
    )


def _range(deviation: Callable[[RunLatency], float], comparisons: Sequence[SolutionComparison]) -> str:
    """The range of a standard deviation over all runs that have a latency."""
    timed = [run for each in comparisons for run in latencies((*each.old, *each.new))]
    low, high = (f"{choose(map(deviation, timed)):.1%}" for choose in (min, max))
    return low if low == high else f"{low} to {high}"


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
    judged = len(found.comparisons) - len(unjudged)
    if not regressions and max_slowdown is not None and judged:
        which = f"Among the other {judged}, no" if unjudged else "No"
        yield f"{which} regression: nothing is slower{limit}, and nothing now fails."
    if unjudged:
        yield f"{len(unjudged)} of {len(found.comparisons)} not judged: ties that may hide a slowdown{limit}."
    for each in unjudged:
        apart = format_apart(each.ratio.apart) if each.ratio else ""
        yield Doubt(f"Not judged: {found.name(each)} could still be up to {apart} apart")


def comparisons_record(
    found: Comparisons, max_slowdown: float | None, unjudged: Sequence[SolutionComparison]
) -> dict[str, Any]:
    """The same in numbers."""
    regressions = found.regressions(max_slowdown or 0.0)
    return {
        "drift": found.drift,
        "confidence_of_each": found.confidence,
        "max_slowdown": max_slowdown or 0.0,
        "regressions": len(regressions),
        "unjudged": len(unjudged),
        "notes": found.notes,
        "comparisons": [
            {
                **pick(each.record, "definition", "solution", "workload", "axes", "scalars", "hardware", "timer"),
                "old_ms": [run.latency_ms for run in each.old],
                "new_ms": [run.latency_ms for run in each.new],
                **pick(each, "ratio", "resolution", "is_of_one_session", "verdict"),
                "is_regression": each in regressions,
                "is_judged": each not in unjudged,
                **pick(each.ratio, "apart"),
                "noisy": [run.noisy for run in (*each.old, *each.new)],
            }
            for each in found.comparisons
        ],
    }
