"""Analyse a section: what bounds each Workload (launch, memory or arithmetic)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from fib_rmsnorm.analysis.results import Peak, SectionResults, WorkloadResults, peak_of
from fib_rmsnorm.machine.gpu_models import GpuModel, find_gpu_model
from fib_rmsnorm.operators import Cost, count_cost
from fib_rmsnorm.schema import Definition


@dataclass(frozen=True)
class WorkloadRoof:
    """The least time that each resource needs for a Workload; None if unknown."""

    results: WorkloadResults
    bytes_moved: int | None
    cost: Cost | None
    """The number of operations, and how they are counted."""
    memory_ms: float | None
    """To move the bytes at the device's peak bandwidth."""
    compute_ms: float | None
    """To do the arithmetic in float32 at the device's peak."""
    fits_l2: bool | None

    @property
    def intensity(self) -> float | None:
        """Operations for each byte."""
        return self.cost.flops / self.bytes_moved if self.cost and self.cost.flops and self.bytes_moved else None

    @property
    def bound(self) -> Literal["launch", "memory", "compute"] | None:
        """The resource that needs the longest."""
        if self.memory_ms is None:
            return None
        if self.results.empty_ms and self.results.empty_ms >= max(self.memory_ms, self.compute_ms or 0.0):
            return "launch"
        return "compute" if self.compute_ms is not None and self.compute_ms > self.memory_ms else "memory"


@dataclass(frozen=True)
class SectionFindings:
    """A section, analysed."""

    results: SectionResults
    device: GpuModel | None
    peak: Peak | None
    clock_mhz: float | None
    flops_per_s: float | None
    workloads: tuple[WorkloadRoof, ...]

    @property
    def ridge(self) -> float | None:
        """Operations a byte from which the arithmetic takes longer than the memory."""
        return self.flops_per_s / self.peak.gb_per_s / 1e9 if self.flops_per_s and self.peak else None


def analyze_sections(sections: Sequence[SectionResults], definitions: dict[str, Definition]) -> list[SectionFindings]:
    """Analyze each section; a Definition that is missing leaves some questions open."""
    return [analyze_section(section, definitions.get(section.definition)) for section in sections]


def analyze_section(section: SectionResults, definition: Definition | None) -> SectionFindings:
    """Compute the roofs of its Workloads."""
    records = [result.record for result in section.results]
    newest = max(records, key=lambda record: (record.peak_bandwidth_gb_per_s is not None, record.timestamp))
    device = find_gpu_model(section.conditions.hardware)
    clock_mhz = section.conditions.clock[1] if section.conditions.clock else None
    peak = peak_of(newest)
    flops_per_s = device.fp32_flops(clock_mhz) if device else None

    def find_roof(workload: WorkloadResults) -> WorkloadRoof:
        records = [result.record for result in workload.results]
        judged_by = next((record.judged_by for record in records if record.judged_by), None)
        cost = count_cost(definition, records[0].axes, judged_by) if definition else None
        moved = next((record.bytes_moved for record in records if record.bytes_moved), None)
        return WorkloadRoof(
            results=workload,
            bytes_moved=moved,
            cost=cost,
            memory_ms=moved / peak.gb_per_s / 1e6 if moved and peak else None,
            compute_ms=1e3 * cost.flops / flops_per_s if cost and flops_per_s else None,
            fits_l2=moved <= device.l2_bytes if moved and device and device.l2_bytes else None,
        )

    roofs = tuple(map(find_roof, section.workloads))
    return SectionFindings(section, device, peak, clock_mhz, flops_per_s, roofs)
