"""Sections of numbers that can be compared: of one Definition, device, timer, clock, cache and settings."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter

from fib_rmsnorm.analysis.trace_record import TraceRecord, TraceSettings, is_of_cpu

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
    settings: TraceSettings
    text: str = field(default="", compare=False)
    """`NVIDIA H200, cupti, 1980 MHz, cold L2`; with the tolerances, where they are not those of the dtype.

    And with the settings without which it would be that of another section: `iterations=200`.
    """


def _range_clocks(records: Iterable[TraceRecord]) -> dict[tuple[str, str | None, float | None], tuple[float, float]]:
    """The range of close clocks in MHz that each clock lies in, by device, timer and clock."""
    clocks: dict[tuple[str, str | None], set[float]] = {}
    for record in records:
        if record.during_mhz is not None:
            clocks.setdefault((record.hardware, record.timer), set()).add(record.during_mhz)
    return {
        (hardware, timer, clock): (low, high)
        for (hardware, timer), found in clocks.items()
        for low, high in cluster(found, _CPU_CLOCK_GAP if is_of_cpu(timer) else _GPU_CLOCK_GAP)
        for clock in found
        if low <= clock <= high
    }


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


DEFINITION = "definition"
"""The version of it: a changed one asks for another computation."""
CLOCK = "clock"
ASPECTS = ("device", "timer", CLOCK, "cache", DEFINITION)
"""The conditions that must agree, unless they are allowed to differ."""


class RunConditions:
    """The conditions of runs that must agree, by aspect, in words. One that is None is unknown, and agrees with all."""

    def __init__(self, runs: Iterable[TraceRecord], allow: Collection[str] = ()) -> None:
        """Take all aspects but those allowed to differ. Clocks of a cluster are one, so all runs must be known."""
        clocks = {key: _clock_text(clock) for key, clock in _range_clocks(runs).items()}
        unknown = _clock_text(None)
        read: dict[str, Callable[[TraceRecord], str | None]] = {
            "device": lambda record: record.hardware,
            "timer": lambda record: record.timer or "an unrecorded timer",
            CLOCK: lambda run: clocks.get((run.hardware, run.timer, run.during_mhz), unknown),
            "cache": lambda record: {True: "cold L2", False: "warm L2", None: "an unrecorded L2 state"}[record.cold_l2],
            DEFINITION: lambda record: f"version {record.definition_sha256[:6]}" if record.definition_sha256 else None,
        }
        self._read = {name: each for name, each in read.items() if name not in allow}

    def key(self, run: TraceRecord) -> tuple[str | None, ...]:
        """The values of all aspects."""
        return tuple(read(run) for read in self._read.values())

    def equal_to(self, run: TraceRecord, others: Iterable[TraceRecord]) -> list[TraceRecord]:
        """The results of `others` that were measured under the conditions of `run`."""
        return [other for other in others if not self.find_differing(run, other)]

    def find_differing(self, old: TraceRecord, new: TraceRecord) -> dict[str, tuple[str, str]]:
        """Each aspect in which they differ, with both values."""
        sides = ((name, read(old), read(new)) for name, read in self._read.items())
        return {
            name: (before, after)
            for name, before, after in sides
            if before is not None and after is not None and before != after
        }


Home = tuple[str, SectionConditions]
"""A Definition and conditions: what makes a section."""


def split(traces: Iterable[TraceRecord]) -> tuple[dict[Home, list[TraceRecord]], int]:
    """Sort into sections, the newest first for each Definition; of equal evaluations the newest counts.

    Also how many Traces they leave out because a newer one of the same evaluation is there.
    """
    listed = list(traces)
    clocks = _range_clocks(listed)
    newest: dict[Home, dict[tuple[str, ...], TraceRecord]] = {}
    sections: dict[tuple[object, ...], dict[tuple[str, ...], TraceRecord]] = {}
    for trace in listed:
        if not trace.latency_ms:
            continue
        # Few differ among many Traces, and those with equal settings share them.
        key = trace.definition, trace.hardware, trace.timer, trace.during_mhz, trace.cold_l2, id(trace.settings)
        section = sections.get(key)
        if section is None:
            clock = clocks.get((trace.hardware, trace.timer, trace.during_mhz))
            measured = SectionConditions(trace.hardware, trace.timer, clock, trace.cold_l2, trace.settings)
            section = sections[key] = newest.setdefault((trace.definition, measured), {})
        _keep_newest(section, trace)
    for trace in listed:
        if not trace.latency_ms:
            for home in _homes_of_failure(trace, newest):
                _keep_newest(newest.setdefault(home, {}), trace)
    order = sorted(newest, key=lambda home: max(trace.timestamp for trace in newest[home].values()), reverse=True)
    order.sort(key=itemgetter(0))
    found = {named: list(newest[home].values()) for named, home in zip(_tell_apart(order), order, strict=True)}
    return found, len(listed) - len({id(trace) for records in found.values() for trace in records})


def _tell_apart(homes: Sequence[Home]) -> Iterator[Home]:
    """The sections with their texts; those with the same tell the settings in which they differ."""
    same: dict[tuple[str, str], list[TraceSettings]] = {}
    for definition, conditions in homes:
        same.setdefault((definition, _describe(conditions)), []).append(conditions.settings)
    for definition, conditions in homes:
        text = _describe(conditions)
        settings = same[definition, text]
        told = [name for name in settings[0].__struct_fields__ if len({getattr(each, name) for each in settings}) > 1]
        whole = ", ".join([text, *(_tell(conditions.settings, name) for name in told)])
        yield definition, replace(conditions, text=whole)


def _describe(conditions: SectionConditions) -> str:
    cache = {True: ["cold L2"], False: ["warm L2"], None: []}[conditions.cold_l2]
    timer = conditions.timer or "timer not recorded"
    judged = [
        f"judged by {name} {value:g}"
        for name, value in (("rtol", conditions.settings.rtol), ("atol", conditions.settings.atol))
        if value is not None
    ]
    return ", ".join([conditions.hardware or "unknown device", timer, _clock_text(conditions.clock), *cache, *judged])


def _tell(settings: TraceSettings, name: str) -> str:
    value = getattr(settings, name)
    if value is None:
        value = "unknown" if settings.warmup_runs is None else "auto"
    return f"{name}={value}"


def _keep_newest(kept: dict[tuple[str, ...], TraceRecord], trace: TraceRecord) -> None:
    other = kept.setdefault(key := _evaluated(trace), trace)
    if other.timestamp <= trace.timestamp:
        kept[key] = trace


def _evaluated(trace: TraceRecord) -> tuple[str, ...]:
    """The key of an evaluation: of equal ones under the same conditions, the newest counts."""
    return (trace.workload, trace.solution, trace.solution_sha256 or "")


def _homes_of_failure(trace: TraceRecord, newest: Mapping[Home, Collection[tuple[str, ...]]]) -> Sequence[Home]:
    """A failure has no timer or clock: it joins what was measured with the same settings on the same hardware.

    That is every section that has an older success of the same evaluation, which it replaces, or else the first one.
    """
    alike = [
        (definition, conditions)
        for definition, conditions in newest
        if (definition, conditions.hardware, conditions.settings) == (trace.definition, trace.hardware, trace.settings)
    ]
    replacing = [home for home in alike if _evaluated(trace) in newest[home]]
    alone = SectionConditions(trace.hardware, None, None, None, trace.settings)
    return replacing or alike[:1] or [(trace.definition, alone)]
