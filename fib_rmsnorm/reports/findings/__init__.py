"""An analysis in prose and tables: four questions, answered from what was measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fib_rmsnorm.analysis.findings import SectionFindings
from fib_rmsnorm.reports.findings.numbers import findings_json
from fib_rmsnorm.reports.findings.roofs import describe_bounds, describe_intensity, describe_peak
from fib_rmsnorm.reports.findings.scaling import describe_scaling
from fib_rmsnorm.reports.results import section_title
from fib_rmsnorm.reports.text.document import Heading, Part

__all__ = ["describe_findings", "describe_section", "findings_json"]


def describe_findings(sections: Sequence[SectionFindings]) -> Iterator[Part]:
    """The four questions for each section."""
    for section in sections:
        yield Heading(section_title(section.results))
        yield from describe_section(section)


def describe_section(section: SectionFindings) -> Iterator[Part]:
    """The four questions, without the title."""
    yield Heading("What is the arithmetic intensity?", 2)
    yield from describe_intensity(section.roofline)
    yield Heading("Is it compute-bound or memory-bound?", 2)
    yield from describe_bounds(section)
    yield Heading("How much of the peak bandwidth is achieved?", 2)
    yield from describe_peak(section)
    yield Heading("How does it scale?", 2)
    yield from describe_scaling(section)
