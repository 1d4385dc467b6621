"""Analyse a section: what bounds each Workload (launch, memory or arithmetic), and its scaling.

Latency grows with the work as t = floor + bytes / bandwidth, fitted over the Workloads of a Solution.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from fib_rmsnorm.analysis.difference import Estimate
from fib_rmsnorm.analysis.loading import read_definitions
from fib_rmsnorm.analysis.ranking import Contest, Ranking, rank
from fib_rmsnorm.analysis.results import Peak, Result, SectionResults, WorkloadResults, peak_of
from fib_rmsnorm.analysis.trace_record import TraceRecord
from fib_rmsnorm.machine.gpu_models import GpuModel, find_gpu_model
from fib_rmsnorm.operators import Cost, count_cost
from fib_rmsnorm.student_t import t_quantile

if TYPE_CHECKING:
    from fib_rmsnorm.schema import Definition

_FEWEST_POINTS = 4
_CONFIDENCE = 0.95


@dataclass(frozen=True)
class WorkloadRoof:
    """The least time that each resource needs for a Workload; None if unknown."""

    contest: Contest
    bytes_moved: int | None
    flops: int | None
    memory_ms: float | None
    """To move the bytes at the device's peak bandwidth."""
    compute_ms: float | None
    """To do the arithmetic in float32 at the device's peak."""
    floor_ms: float | None
    """An empty kernel, as measured."""
    fits_l2: bool | None

    @property
    def best(self) -> Result | None:
        """The fastest Solution."""
        return self.contest.winner

    @property
    def title(self) -> str:
        """`batch=32`."""
        return self.contest.workload.title

    @property
    def intensity(self) -> float | None:
        """Operations for each byte."""
        return self.flops / self.bytes_moved if self.flops and self.bytes_moved else None

    @property
    def bound(self) -> Literal["launch", "memory", "compute"] | None:
        """The resource that needs the longest."""
        if self.memory_ms is None:
            return None
        if self.floor_ms is not None and self.floor_ms >= max(self.memory_ms, self.compute_ms or 0.0):
            return "launch"
        return "compute" if self.compute_ms is not None and self.compute_ms > self.memory_ms else "memory"


def _count_cost(definition: Definition | None, workload: WorkloadResults) -> Cost | None:
    if definition is None:
        return None
    judged_by = next((r.record.judged_by for r in workload.results if r.record.judged_by), None)
    return count_cost(definition, workload.results[0].record.axes, judged_by)


def _roof(
    contest: Contest,
    cost: Cost | None,
    peak: Peak | None,
    flops_per_s: float | None,
    device: GpuModel | None,
) -> WorkloadRoof:
    moved = next((r.record.bytes_moved for r in contest.workload.results if r.record.bytes_moved), None)
    return WorkloadRoof(
        contest=contest,
        bytes_moved=moved,
        flops=cost.flops if cost else None,
        memory_ms=moved / peak.gb_per_s / 1e6 if moved and peak else None,
        compute_ms=1e3 * cost.flops / flops_per_s if cost and flops_per_s else None,
        floor_ms=contest.workload.empty_ms,
        fits_l2=moved <= device.l2_bytes if moved and device else None,
    )


@dataclass(frozen=True)
class Fit:
    """A line through the latencies of a Solution, with 95% intervals from how far the points lie from it."""

    solution: str
    floor_ms: Estimate
    """The latency with no bytes to move: the launch and the latency of a row."""
    bandwidth_gb_per_s: Estimate
    """The bandwidth that it approaches as the work grows."""
    worst: TraceRecord
    """The point farthest from the line, and how far: relative to the line, above it if positive."""
    worst_miss: float

    @property
    def crossover_bytes(self) -> float:
        """The size whose bytes take as long to move as the floor: below it the floor rules, above it the bandwidth."""
        return self.floor_ms.value * self.bandwidth_gb_per_s.value * 1e6


def fit(records: Sequence[TraceRecord]) -> Fit | None:
    """Fit the records of one Solution; None for fewer than four sizes, or where no such line fits.

    Weighted least squares with weights 1/t^2: both the noise of a latency and the fault of the model are
    proportional to it, and unweighted the largest Workload alone would decide. The intervals come from the
    residuals (Student's t), not from the noise of each point, because the line is a simplification: what
    overlaps in a kernel adds up in the model.
    """
    points = [
        (float(record.bytes_moved), record.latency_ms, record)
        for record in records
        if record.is_native and record.bytes_moved and record.latency_ms
    ]
    if len({moved for moved, _, _ in points}) < _FEWEST_POINTS:
        return None
    weights = [1 / latency**2 for _, latency, _ in points]
    total = sum(weights)
    weighted = list(zip(weights, points, strict=True))
    mean_x = sum(w * x for w, (x, _, _) in weighted) / total
    mean_y = sum(w * y for w, (_, y, _) in weighted) / total
    spread = sum(w * (x - mean_x) ** 2 for w, (x, _, _) in weighted)
    per_byte = sum(w * (x - mean_x) * (y - mean_y) for w, (x, y, _) in weighted) / spread
    floor_ms = mean_y - per_byte * mean_x
    if per_byte <= 0 or floor_ms <= 0:
        return None
    residuals = (w * (y - floor_ms - per_byte * x) ** 2 for w, (x, y, _) in weighted)
    variance = sum(residuals) / (len(points) - 2)
    t = t_quantile(_CONFIDENCE, len(points) - 2)
    slope = _around(per_byte, t * math.sqrt(variance / spread))
    misses = [(latency / (floor_ms + per_byte * moved) - 1, record) for moved, latency, record in points]
    worst_miss, worst = max(misses, key=lambda miss: abs(miss[0]))
    return Fit(
        solution=points[0][2].solution,
        floor_ms=_around(floor_ms, t * math.sqrt(variance * (1 / total + mean_x**2 / spread))),
        bandwidth_gb_per_s=Estimate(
            1e-6 / slope.value, 1e-6 / slope.high, 1e-6 / slope.low if slope.low > 0 else math.inf
        ),
        worst=worst,
        worst_miss=worst_miss,
    )


def _around(value: float, either_side: float) -> Estimate:
    return Estimate(value, value - either_side, value + either_side)


@dataclass(frozen=True)
class SectionFindings:
    """A section, analysed."""

    results: SectionResults
    ranking: Ranking
    """The winner on each Workload."""
    cost: Cost | None
    """The cost of the largest Workload."""
    device: GpuModel | None
    peak: Peak | None
    clock_mhz: float | None
    flops_per_s: float | None
    workloads: tuple[WorkloadRoof, ...]
    fits: tuple[Fit, ...]
    """A fit for each Solution that has one, the lowest floor first."""

    @property
    def ridge(self) -> float | None:
        """Operations a byte from which the arithmetic takes longer than the memory."""
        return self.flops_per_s / self.peak.gb_per_s / 1e9 if self.flops_per_s and self.peak else None


def analyze_sections(sections: Sequence[SectionResults], roots: Iterable[Path]) -> list[SectionFindings]:
    """Analyze each section; a Definition that no registry at `roots` has leaves some questions open."""
    definitions = read_definitions({section.definition for section in sections}, roots)
    return [analyze_section(section, definitions.get(section.definition)) for section in sections]


def analyze_section(section: SectionResults, definition: Definition | None) -> SectionFindings:
    """Rank its results, compute the roofs of its Workloads, and fit a line for each Solution."""
    ranking = rank(section)
    records = [result.record for result in section.results]
    newest = max(records, key=lambda record: (record.peak_bandwidth_gb_per_s is not None, record.timestamp))
    device = find_gpu_model(section.conditions.hardware)
    clock_mhz = section.conditions.clock[1] if section.conditions.clock else None
    peak = peak_of(newest)
    flops_per_s = device.fp32_flops(clock_mhz) if device else None
    costs = [_count_cost(definition, each) for each in section.workloads]
    roofs = [_roof(each, cost, peak, flops_per_s, device) for each, cost in zip(ranking.contests, costs, strict=True)]
    groups: dict[str, list[TraceRecord]] = {}
    for result in section.results:
        groups.setdefault(result.label, []).append(result.record)
    fits = [line for records in groups.values() if (line := fit(records)) is not None]
    fits.sort(key=lambda line: line.floor_ms.value)
    return SectionFindings(
        results=section,
        ranking=ranking,
        cost=costs[-1] if costs else None,
        device=device,
        peak=peak,
        clock_mhz=clock_mhz,
        flops_per_s=flops_per_s,
        workloads=tuple(roofs),
        fits=tuple(fits),
    )
