"""Sort Traces into sections whose numbers can be compared: one Definition, device, timer, clock, cache and settings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from fib_rmsnorm.analysis.trace_record import TraceRecord

if TYPE_CHECKING:
    from fib_rmsnorm.analysis.decoding import DecodedTrace

# Clocks nearer to each other than this are one. A GPU holds its clock or is throttled by steps; a CPU's wanders.
_GPU_CLOCK_GAP = 0.02
_CPU_CLOCK_GAP = 0.10


@dataclass(frozen=True)
class SectionConditions:
    """The conditions of a measurement: numbers can be compared only if all of them agree."""

    hardware: str
    timer: str | None
    clock: tuple[float, float] | None
    """The lowest and the highest clock in MHz."""
    cold_l2: bool | None
    settings: Any
    """How it was asked to judge and time; tolerances of None are those of the dtype."""
    told: tuple[str, ...] = field(default=(), compare=False)
    """The settings without which the text would be that of another section."""

    @property
    def text(self) -> str:
        """`NVIDIA H200, cupti, 1980 MHz, cold L2`; with the tolerances, where they are not those of the dtype.

        And with the settings that are `told`: `iterations=200`.
        """
        cache = {True: ["cold L2"], False: ["warm L2"], None: []}[self.cold_l2]
        measured = [self.hardware or "unknown device", self.timer or "timer not recorded", _clock_text(self.clock)]
        judged = [
            f"judged by {name} {value:g}"
            for name, value in (("rtol", self.settings.rtol), ("atol", self.settings.atol))
            if value is not None
        ]
        return ", ".join([*measured, *cache, *judged, *map(self._tell, self.told)])

    def _tell(self, name: str) -> str:
        value = getattr(self.settings, name)
        if value is None:
            return f"{name}={'unknown' if self.settings.warmup_runs is None else 'auto'}"
        return f"{name}={value}"


@dataclass(frozen=True)
class Section:
    """What was measured under the same conditions; of each Solution on each Workload the newest Trace."""

    definition: str
    conditions: SectionConditions
    records: tuple[TraceRecord, ...]

    @property
    def workloads(self) -> dict[str, list[TraceRecord]]:
        """The records of each Workload, the smallest axes first."""
        groups: dict[str, list[TraceRecord]] = {}
        for record in sorted(self.records, key=lambda record: tuple(record.axes.values())):
            groups.setdefault(record.workload, []).append(record)
        return groups


@dataclass(frozen=True)
class Sections:
    """All sections, and how many Traces they leave out because a newer one of the same evaluation is there."""

    sections: tuple[Section, ...]
    superseded: int


@dataclass(frozen=True)
class ClockClusters:
    """The ranges of clocks that lie close together, for each device and timer."""

    ranges: dict[tuple[str, str | None], list[tuple[float, float]]]

    def find(self, hardware: str, timer: str | None, clock: float | None) -> tuple[float, float] | None:
        """The range that a clock in MHz lies in; None if it is unknown."""
        if clock is not None:
            for low, high in self.ranges[hardware, timer]:
                if low <= clock <= high:
                    return low, high
        return None

    def of(self, record: TraceRecord) -> tuple[float, float] | None:
        """That of a record's clock."""
        return self.find(record.hardware, record.timer, record.during_mhz)

    def text(self, record: TraceRecord) -> str:
        """`1980 MHz`, `1530 to 1545 MHz`."""
        return _clock_text(self.of(record))


def clock_clusters(records: Iterable[TraceRecord]) -> ClockClusters:
    """Gather the clocks of records."""
    return cluster_clocks((each.hardware, each.timer, each.during_mhz) for each in records)


def cluster_clocks(seen: Iterable[tuple[str, str | None, float | None]]) -> ClockClusters:
    """Gather clocks in MHz, each with its device and timer."""
    clocks: dict[tuple[str, str | None], set[float]] = {}
    for hardware, timer, clock in seen:
        if clock is not None:
            clocks.setdefault((hardware, timer), set()).add(clock)
    return ClockClusters(
        {
            key: cluster(found, _CPU_CLOCK_GAP if key[1] == "cpu_clock" else _GPU_CLOCK_GAP)
            for key, found in clocks.items()
        }
    )


def cluster(values: Iterable[float], gap: float) -> list[tuple[float, float]]:
    """The ranges of values in which each is within `gap` (relative) of the next."""
    ranges: list[tuple[float, float]] = []
    for value in sorted(values):
        if ranges and value <= ranges[-1][1] * (1 + gap):
            ranges[-1] = (ranges[-1][0], value)
        else:
            ranges.append((value, value))
    return ranges


def _clock_text(clock: tuple[float, float] | None) -> str:
    if clock is None:
        return "clock not recorded"
    low, high = (f"{each:.0f}" for each in clock)
    return f"{low} MHz" if low == high else f"{low} to {high} MHz"


Home = tuple[str, SectionConditions]
"""A Definition and conditions: what makes a section."""


def split(traces: Iterable[DecodedTrace]) -> Sections:
    """Sort into sections, the newest first for each Definition; of equal evaluations the newest counts."""
    listed = list(traces)
    clusters = cluster_clocks((each.facts.hardware, each.facts.timer, each.during_mhz) for each in listed)
    newest: dict[Home, dict[tuple[str, ...], DecodedTrace]] = {}
    homes: dict[tuple[object, ...], Home] = {}
    for trace in listed:
        facts = trace.facts
        if facts.failed:
            continue
        key = facts.definition, facts.hardware, facts.timer, trace.during_mhz, facts.cold_l2, facts.settings
        if key not in homes:  # few differ among many Traces
            clock = clusters.find(facts.hardware, facts.timer, trace.during_mhz)
            measured = facts.hardware, facts.timer, clock, facts.cold_l2, facts.settings
            homes[key] = facts.definition, SectionConditions(*measured)
        _keep_newest(newest.setdefault(homes[key], {}), trace)
    for trace in listed:
        if trace.facts.failed:
            for home in _homes_of_failure(trace, newest):
                _keep_newest(newest.setdefault(home, {}), trace)
    kept = {id(trace) for mine in newest.values() for trace in mine.values()}
    sections = [
        Section(definition, conditions, tuple(trace.flatten() for trace in mine.values()))
        for (definition, conditions), mine in newest.items()
    ]
    sections.sort(key=lambda section: max(record.timestamp for record in section.records), reverse=True)
    sections.sort(key=lambda section: section.definition)
    return Sections(tuple(_tell_apart(sections)), len(listed) - len(kept))


def _tell_apart(sections: Sequence[Section]) -> Iterator[Section]:
    """The sections; those with the same text tell the settings in which they differ."""
    same: dict[tuple[str, str], list[Any]] = {}
    for section in sections:
        same.setdefault((section.definition, section.conditions.text), []).append(section.conditions.settings)
    for section in sections:
        settings = same[section.definition, section.conditions.text]
        told = [name for name in settings[0].__struct_fields__ if len({getattr(each, name) for each in settings}) > 1]
        yield replace(section, conditions=replace(section.conditions, told=tuple(told)))


def _evaluated(trace: DecodedTrace) -> tuple[str, ...]:
    """What was evaluated: of the same under the same conditions, the newest counts."""
    return (trace.facts.workload, trace.facts.solution, trace.facts.solution_sha256 or "")


def _keep_newest(kept: dict[tuple[str, ...], DecodedTrace], trace: DecodedTrace) -> None:
    key = _evaluated(trace)
    other = kept.get(key)
    if other is None or other.timestamp <= trace.timestamp:
        kept[key] = trace


def _homes_of_failure(
    trace: DecodedTrace, newest: Mapping[Home, Mapping[tuple[str, ...], DecodedTrace]]
) -> Sequence[Home]:
    """A failure has no timer or clock: it joins what was measured with the same settings on the same hardware.

    That is every section that has an older success of the same evaluation, which it replaces, or else the first one.
    """
    facts = trace.facts
    alike = [
        (definition, conditions)
        for definition, conditions in newest
        if (definition, conditions.hardware, conditions.settings) == (facts.definition, facts.hardware, facts.settings)
    ]
    replacing = [home for home in alike if _evaluated(trace) in newest[home]]
    alone = SectionConditions(facts.hardware, None, None, None, facts.settings)
    return replacing or alike[:1] or [(facts.definition, alone)]
