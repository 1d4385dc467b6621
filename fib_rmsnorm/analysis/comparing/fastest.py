"""The fastest of the Traces that were measured just now, over the Workloads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import geometric_mean
from typing import TYPE_CHECKING

from fib_rmsnorm.analysis.comparing.difference import find_difference, find_speedup
from fib_rmsnorm.analysis.trace_record import RunLatency

if TYPE_CHECKING:
    from fib_rmsnorm.schema import Performance, Trace


@dataclass(frozen=True)
class Fastest:
    """The Solutions that may be the fastest."""

    names: tuple[str, ...]
    """The one with the least geometric mean of its latencies, then those that tie with it."""
    apart: float | None
    """How far they could be apart; None without a tie."""
    speedups: tuple[float, ...]
    """How many times as fast as the reference each is on each Workload."""
    workloads: int
    unknown: int
    """The number of Workloads that are left out, because a latency on them has no bound."""


def performance_of(trace: Trace) -> Performance | None:
    """What was timed; None for what failed, and where an interpreter ran the kernel."""
    performance = trace.evaluation.performance if trace.evaluation else None
    return None if performance is None or performance.interpreted else performance


def latency_of(trace: Trace) -> RunLatency | None:
    """The latency; None where nothing was timed."""
    performance = performance_of(trace)
    return RunLatency.of(performance) if performance else None


def find_fastest(traces: Sequence[Trace]) -> Fastest | None:
    """Among those that were timed on the most Workloads; None without a time."""
    timed: dict[str, dict[str, tuple[RunLatency, Performance]]] = {}
    for trace in traces:
        performance, latency = performance_of(trace), latency_of(trace)
        if performance and latency:
            timed.setdefault(trace.solution or "", {})[trace.workload.uuid] = latency, performance
    unknown = {
        uuid
        for mine in timed.values()
        for uuid, (run, _) in mine.items()
        if run.interval_ms and not run.interval_ms.is_bounded
    }
    timed = {name: {uuid: mine[uuid] for uuid in sorted(mine.keys() - unknown)} for name, mine in timed.items()}
    most = max(map(len, timed.values()), default=0)
    if not most:
        return None
    runs = {name: [run for run, _ in mine.values()] for name, mine in timed.items() if len(mine) == most}
    first = min(runs, key=lambda name: geometric_mean(run.ms for run in runs[name]))
    others = [name for name in runs if name != first and timed[name].keys() == timed[first].keys()]
    ratios = {name: find_difference(runs[first], runs[name]) for name in others}
    ties = {name: ratio.apart for name, ratio in ratios.items() if ratio.verdict == "tie"}
    speedups = [find_speedup(each) for name in (first, *ties) for _, each in timed[name].values()]
    factors = tuple(each.value for each in speedups if each)
    return Fastest((first, *ties), max(ties.values(), default=None), factors, most, len(unknown))
