"""What the analysis of a section finds: results, roofs and scaling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fib_rmsnorm.analysis.results import SectionResults
from fib_rmsnorm.analysis.roofline import Roofline, make_roofline
from fib_rmsnorm.analysis.scaling import Fit, fit
from fib_rmsnorm.analysis.trace_record import TraceRecord

if TYPE_CHECKING:
    from fib_rmsnorm.schema import Definition


@dataclass(frozen=True)
class SectionFindings:
    """A section, analysed."""

    results: SectionResults
    roofline: Roofline
    fits: tuple[Fit, ...]
    """A fit for each Solution that has one, the lowest floor first."""


def analyze(sections: Sequence[SectionResults], definitions: dict[str, Definition]) -> list[SectionFindings]:
    """Analyze each section; a missing Definition leaves some questions open."""
    return [
        SectionFindings(section, make_roofline(section, definitions.get(section.definition)), _fit_all(section))
        for section in sections
    ]


def _fit_all(section: SectionResults) -> tuple[Fit, ...]:
    groups: dict[str, list[TraceRecord]] = {}
    for result in section.results:
        groups.setdefault(result.label, []).append(result.record)
    found = [each for records in groups.values() if (each := fit(records)) is not None]
    return tuple(sorted(found, key=lambda each: each.floor_ms.value))
