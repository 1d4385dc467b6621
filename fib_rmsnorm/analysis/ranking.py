"""Find the fastest: over the Workloads of a bench, and of each Definition beside its peers.

A summary shows many Definitions at a glance: on each Workload, the fastest Solution beside the fastest peer, which is a
Solution by the author `baseline`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from fib_rmsnorm.analysis.difference import Estimate, Verdict, relate
from fib_rmsnorm.analysis.results import SectionResults, WorkloadResults
from fib_rmsnorm.registry.selection import BASELINE_AUTHOR


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
        return relate(self.own.fastest, self.peers.fastest)

    @property
    def verdict(self) -> Verdict | None:
        """Whether the fastest Solution is faster than all peers; None if a side has no latency."""
        times_as_long = relate(self.peers.fastest, self.own.fastest)
        return times_as_long.verdict if times_as_long else None


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
