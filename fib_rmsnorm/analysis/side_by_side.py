"""The same Solutions on several devices, side by side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fib_rmsnorm.analysis.comparing.difference import find_difference
from fib_rmsnorm.analysis.estimate import Estimate, RunLatency
from fib_rmsnorm.analysis.results import Result, SectionResults


@dataclass(frozen=True)
class Pairing:
    """A result on a device, and how it relates to that on the first device."""

    result: Result | None
    """None if it was not evaluated there."""
    times_as_fast: Estimate | None
    """As on the first device, with a 95% interval; None for the first device and where `why_no_ratio` says why."""
    why_no_ratio: str
    """Empty where there is a ratio, or nothing to relate."""


@dataclass(frozen=True)
class SideBySideRow:
    """A Solution on a Workload, with a pairing for each device."""

    solution: str
    workload: str
    """The Workload's title."""
    pairings: tuple[Pairing, ...]


@dataclass(frozen=True)
class SideBySide:
    """A Definition on several devices: of each, the newest section."""

    definition: str
    sections: tuple[SectionResults, ...]
    rows: tuple[SideBySideRow, ...]
    """What was evaluated on two devices or more, by Solution, then by Workload."""

    @property
    def why_no_ratios(self) -> dict[str, list[str]]:
        """The Solutions without a ratio, by reason."""
        found: dict[str, dict[str, None]] = {}
        for row in self.rows:
            for why in {pairing.why_no_ratio for pairing in row.pairings} - {""}:
                found.setdefault(why, {})[row.solution] = None
        return {why: list(names) for why, names in found.items()}


def find_side_by_side(sections: Iterable[SectionResults]) -> list[SideBySide]:
    """One for each Definition that was evaluated on several devices; the sections come newest first."""
    devices: dict[str, dict[str, SectionResults]] = {}
    for section in sections:
        devices.setdefault(section.definition, {}).setdefault(section.conditions.hardware, section)
    found = [_place(definition, tuple(newest.values())) for definition, newest in devices.items() if len(newest) > 1]
    return [each for each in found if each.rows]


def _place(definition: str, sections: tuple[SectionResults, ...]) -> SideBySide:
    titles: dict[str, str] = {}
    cells: list[dict[tuple[str, str], Result]] = []
    for section in sections:
        mine: dict[tuple[str, str], Result] = {}
        for each in section.workloads:
            titles.setdefault(each.workload, each.title)
            # An earlier version of a Solution has a label of its own, and stays in its section.
            mine |= {(result.label, each.workload): result for result in each.results if _is_newest(result)}
        cells.append(mine)
    order = list(titles)
    keys = {key for mine in cells for key in mine if sum(key in other for other in cells) > 1}
    rows = []
    for solution, workload in sorted(keys, key=lambda key: (key[0], order.index(key[1]))):
        results = [mine.get((solution, workload)) for mine in cells]
        rows.append(SideBySideRow(solution, titles[workload], tuple(_pair(results, sections))))
    return SideBySide(definition, sections, tuple(rows))


def _is_newest(result: Result) -> bool:
    return result.label == result.record.solution


def _pair(results: Sequence[Result | None], sections: Sequence[SectionResults]) -> Iterable[Pairing]:
    first, *others = results
    yield Pairing(first, None, "")
    for result, section in zip(others, sections[1:], strict=True):
        if first is None or result is None:
            yield Pairing(result, None, "")
        elif why := _why_no_ratio(first, result, sections[0], section):
            yield Pairing(result, None, why)
        else:
            here, there = RunLatency.of(first.record), RunLatency.of(result.record)
            yield Pairing(result, find_difference([there], [here]) if here and there else None, "")


def _why_no_ratio(one: Result, other: Result, here: SectionResults, there: SectionResults) -> str:
    """Why two results have no ratio; empty if they have one. What failed says so itself."""
    if not one.record.is_native or not other.record.is_native:
        return "one failed or was not timed"
    names = f"{here.conditions.hardware} and {there.conditions.hardware}"
    timers = here.conditions.timer, there.conditions.timer
    if None in timers or len(set(timers)) > 1:
        told = ", ".join(timer or "not recorded" for timer in timers)
        return f"the timers of {names} cannot be compared ({told})"
    if here.conditions.cold_l2 != there.conditions.cold_l2:
        return f"the caches of {names} were not in the same state"
    digests = one.record.solution_sha256, other.record.solution_sha256
    if None in digests or len(set(digests)) > 1:
        return f"not known to be of the same sources on {names}"
    return ""
