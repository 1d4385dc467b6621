"""Find the fastest: over the Workloads of a bench, and of each Definition beside its peers.

A summary shows many Definitions at a glance: on each Workload, the fastest Solution beside the fastest peer, which is a
Solution by the author `baseline`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import geometric_mean
from typing import TYPE_CHECKING

from fib_rmsnorm.analysis.difference import Estimate, RunLatency, Verdict, find_difference, find_speedup, relate
from fib_rmsnorm.analysis.results import SectionResults, WorkloadResults
from fib_rmsnorm.registry.selection import BASELINE_AUTHOR

if TYPE_CHECKING:
    from fib_rmsnorm.schema import Performance, Trace


@dataclass(frozen=True)
class Match:
    """A Workload of a Definition: the results of the peers, and those of all others, under the same conditions."""

    definition: str
    conditions: str
    workload: WorkloadResults
    own: WorkloadResults
    peers: WorkloadResults

    @property
    def times_as_fast(self) -> Estimate | None:
        """The fastest peer's latency over the fastest other's; None unless both have one."""
        own, peer = (each.winner.record if each.winner else None for each in (self.own, self.peers))
        return relate(own, peer)

    @property
    def verdict(self) -> Verdict | None:
        """Whether the fastest Solution is faster than all peers; None if a side has no latency."""
        return self.times_as_fast.inverse.verdict if self.times_as_fast else None


def summarize(sections: Iterable[SectionResults]) -> dict[str, list[Match]]:
    """A match for each Workload of each Definition on a device, by the device's model.

    The sections of a Definition come newest first. Of a Workload in several, the newest counts in which both sides
    have a latency, or else the newest.
    """
    devices: dict[str, dict[tuple[str, str], list[Match]]] = {}
    for section in sections:
        found = devices.setdefault(section.conditions.hardware, {})
        for each in section.workloads:
            peers = tuple(result for result in each.results if result.record.author == BASELINE_AUTHOR)
            others = tuple(result for result in each.results if result.record.author != BASELINE_AUTHOR)
            sides = [replace(each, results=results) for results in (others, peers)]
            match = Match(section.definition, section.conditions.text, each, *sides)
            found.setdefault((match.definition, each.workload), []).append(match)
    summaries = {}
    for hardware, found in devices.items():
        matches = [next((match for match in mine if match.times_as_fast), mine[0]) for mine in found.values()]
        # By Definition, then by size.
        matches.sort(key=lambda each: (each.definition, tuple(each.workload.results[0].record.axes.values())))
        summaries[hardware] = matches
    return summaries


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


def find_fastest(traces: Sequence[Trace]) -> Fastest | None:
    """Among those that were timed on the most Workloads; None without a time."""
    timed: dict[str, dict[str, tuple[RunLatency, Performance]]] = {}
    for trace in traces:
        if trace.performance and (latency := RunLatency.of(trace.performance)):
            timed.setdefault(trace.solution or "", {})[trace.workload.uuid] = latency, trace.performance
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
