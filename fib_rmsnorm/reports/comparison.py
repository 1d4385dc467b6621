"""Old Traces beside new ones, and a Solution over time, in words and numbers."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from math import isfinite
from statistics import geometric_mean
from typing import Any

from fib_rmsnorm.analysis.comparing.comparison import Comparisons, SolutionComparison, Verdict, latencies
from fib_rmsnorm.analysis.comparing.history import Histories, Run, SolutionHistory
from fib_rmsnorm.analysis.difference import Estimate, RunLatency, find_interval, session_deviation
from fib_rmsnorm.analysis.trace_record import TraceRecord
from fib_rmsnorm.reports.results import describe_noisy, number_cell
from fib_rmsnorm.reports.text.document import Doubt, Grid, Heading, Part
from fib_rmsnorm.reports.text.units import (
    count,
    format_apart,
    format_change,
    format_changes,
    format_latency,
    format_range,
    pick,
)

_ORDER: tuple[Verdict, ...] = ("now fails", "slower", "faster", "tie")


def describe_comparisons(found: Comparisons) -> Iterator[Part]:
    """The verdict and what a gate says, a table for each Definition and device, and how sure it is."""
    verdicts = Counter(each.verdict for each in found.comparisons)
    told = ", ".join(f"{verdicts[verdict]} {verdict}" for verdict in _ORDER if verdicts[verdict])
    yield f"{len(found.comparisons)} compared: {told}."
    yield from _regressions(found)
    groups: dict[str, list[SolutionComparison]] = {}
    for each in found.comparisons:
        groups.setdefault(f"{each.record.definition} on {_whose(each)}", []).append(each)
    for title, members in groups.items():
        yield Heading(title)
        yield Grid(
            ("solution", "workload", ">old", ">new", ">runs", ">change", ">apart", ">interval", "verdict"),
            [_comparison_row(each, found.title(each)) for each in members],
        )
    yield " ".join(_how_sure(found))
    yield from map(Doubt, found.notes)
    yield from describe_noisy(
        (found.name(each), list(dict.fromkeys(reason for run in (*each.old, *each.new) for reason in run.noisy)))
        for each in found.comparisons
    )
    for each in found.unjudged:
        apart = f"up to {format_apart(each.ratio.apart)}" if each.ratio and isfinite(each.ratio.apart) else "any factor"
        yield Doubt(f"Not judged: {found.name(each)} could still be {apart} apart")


def _whose(each: SolutionComparison) -> str:
    sides = (
        f"{run.hardware}, {run.timer or 'timer not recorded'}" for run in (each.old[-1], each.new[-1]) if run.latency_ms
    )
    return " against ".join(dict.fromkeys(sides))


def _comparison_row(each: SolutionComparison, title: str) -> Sequence[str]:
    return (
        each.record.solution,
        title,
        *(
            format_latency(geometric_mean(timed)) if (timed := [r.latency_ms for r in side if r.latency_ms]) else ""
            for side in (each.old, each.new)
        ),
        f"{len(each.old)}, {len(each.new)}",
        *_change_cells(each.ratio, each.verdict),
    )


def _change_cells(ratio: Estimate | None, verdict: str) -> tuple[str, str, str, str]:
    """The change, how far a tie could be apart, the interval of the change, and the verdict."""
    if ratio is None:
        return "", "", "", verdict
    apart = format_apart(ratio.apart) if verdict == "tie" else ""
    return format_change(ratio.value), apart, format_changes(ratio.low, ratio.high), verdict


def _how_sure(found: Comparisons) -> Iterator[str]:
    """How small a difference can be detected, what the intervals include, and how to detect smaller ones."""
    timed = [each for each in found.comparisons if each.ratio]
    if resolutions := [each.resolution for each in timed if each.resolution is not None and isfinite(each.resolution)]:
        yield f"A difference below {format_range(resolutions, format_apart)} cannot be detected."
    elif timed:
        yield "No difference can be detected."
    if timed:
        which = f"All {len(timed)} intervals together have" if len(timed) > 1 else "The interval has"
        source = f"from {count(found.drift.repeats, 'repeated run')}" if found.drift.repeats else "assumed"
        drift = _range(found.drift.deviation, timed)
        yield f"{which} a confidence of 95%, with a drift of medians from run to run of {drift} ({source})."
    apart = [each for each in timed if not each.is_of_one_session]
    if apart:
        yield (
            "OLD and NEW share no recorded session (a device, until its machine restarts), which adds"
            f" {_range(session_deviation, apart)}."
            " To detect smaller differences, bench both sides on one device without a restart, or use --measure."
        )
    elif any(min(len(each.old), len(each.new)) < 2 for each in timed):
        yield "Two or more benches of each side detect smaller differences."


def _range(deviation: Callable[[RunLatency], float], comparisons: Sequence[SolutionComparison]) -> str:
    """The range of a standard deviation over all runs that have a latency."""
    timed = [run for each in comparisons for run in latencies((*each.old, *each.new))]
    return format_range(map(deviation, timed), "{:.1%}".format)


def _regressions(found: Comparisons) -> Iterator[Part]:
    """State the limit even if nothing is found: 5 means 500%, which its author may not have meant."""
    regressions, unjudged, max_slowdown = found.regressions, found.unjudged, found.max_slowdown
    limit = f" by more than {100 * max_slowdown:.4g}%" if max_slowdown else ""
    slower = [found.name(each) for each in regressions if each.verdict == "slower"]
    failing = [f"{found.name(each)} ({each.record.status})" for each in regressions if each.verdict == "now fails"]
    if slower:
        yield Doubt(f"Regression: slower{limit}: {', '.join(slower)}")
    if failing:
        yield Doubt(f"Regression: now failing: {', '.join(failing)}")
    judged = len(found.comparisons) - len(unjudged)
    if not regressions and max_slowdown is not None and judged:
        where = f" in {judged} of {len(found.comparisons)}" if unjudged else ""
        yield f"No regression{where}: nothing is slower{limit}, and nothing now fails."
    if unjudged:
        yield f"{len(unjudged)} of {len(found.comparisons)} not judged: ties that may hide a slowdown{limit}."


def comparisons_record(found: Comparisons) -> dict[str, Any]:
    """The same in numbers."""
    return {
        **pick(found, "drift", confidence_of_each="confidence"),
        "max_slowdown": found.max_slowdown or 0.0,
        "regressions": len(found.regressions),
        "unjudged": len(found.unjudged),
        "notes": found.notes,
        "comparisons": [
            {
                **pick(each.record, "definition", "solution", "workload", "axes", "scalars", "hardware", "timer"),
                "old_ms": [run.latency_ms for run in each.old],
                "new_ms": [run.latency_ms for run in each.new],
                **pick(each, "ratio", "resolution", "is_of_one_session", "verdict"),
                "is_regression": each in found.regressions,
                "is_judged": each not in found.unjudged,
                **pick(each.ratio, "apart"),
                "noisy": [run.noisy for run in (*each.old, *each.new)],
            }
            for each in found.comparisons
        ],
    }


_SOURCES = 6


def describe_histories(found: Histories) -> Iterator[Part]:
    """The changes of each Solution on each device, and a table of its runs."""
    for each in found.histories:
        yield Heading(f"{each.solution} ({each.definition}) on {each.hardware}")
        yield from _changes(each)
        yield Grid(
            ("workload", "evaluated", "sources", ">latency", "timer", ">change", ">apart", ">interval", "verdict"),
            [_run_row(title, run) for title, runs in each.workloads for run in runs],
        )
        yield from describe_noisy(
            (_name(title, run), run.record.noisy) for title, runs in each.workloads for run in runs
        )
    yield (
        "Change: from the newest earlier run with the same device, timer, clock, cache state and version of the"
        f" Definition. All intervals together have a confidence of 95% (each has {found.confidence:.2%}). * marks new"
        " sources."
    )


def _changes(each: SolutionHistory) -> Iterator[Part]:
    runs = sum(len(mine) for _, mine in each.workloads)
    changes = each.changes
    yield f"{count(runs, 'run')}, {count(len(changes), 'change') if changes else 'no change'}."
    for title, run in changes:
        sources = "new sources" if run.is_new_content else "the same sources"
        ratio = run.change.ratio if run.change else None
        much = f" ({format_change(ratio.value)}, {format_changes(ratio.low, ratio.high)})" if ratio else ""
        yield Doubt(f"{_name(title, run)}: {run.verdict}{much}, {sources}")


def _name(title: str, run: Run) -> str:
    return f"{title} on {_when(run.record)}"


def _when(record: TraceRecord) -> str:
    return record.timestamp[:16].replace("T", " ")


def _run_row(title: str, run: Run) -> Sequence[str]:
    record = run.record
    sources = (record.solution_sha256 or "unknown")[:_SOURCES]
    verdict = run.verdict if record.passed else f"{run.verdict}: {record.status}"
    return (
        title,
        _when(record),
        f"{sources} *" if run.is_new_content else sources,
        number_cell(record.latency_ms, find_interval(record)) if record.is_native else "",
        record.timer or "",
        *_change_cells(run.change.ratio if run.change else None, verdict),
    )


def histories_record(found: Histories) -> dict[str, Any]:
    """The same in numbers."""
    return {
        **pick(found, "drift", confidence_of_each="confidence"),
        "histories": [
            {
                **pick(each, "definition", "solution", "hardware"),
                "changes": len(each.changes),
                "workloads": [
                    {**pick(runs[0].record, "workload", "axes", "scalars"), "runs": [_run_record(run) for run in runs]}
                    for _, runs in each.workloads
                ],
            }
            for each in found.histories
        ],
    }


def _run_record(run: Run) -> dict[str, Any]:
    record, change = run.record, run.change
    return {
        **pick(record, "timestamp", "definition_sha256", "solution_sha256", "status"),
        **pick(run, "is_new_content", "verdict", "is_change"),
        **pick(record, "latency_ms", "latency_low_ms", "latency_high_ms", "noisy"),
        "change": change and {"since": change.old[-1].timestamp, **pick(change, "verdict", "ratio")},
        "trace": record.place,
    }
