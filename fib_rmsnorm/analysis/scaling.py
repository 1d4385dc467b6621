"""How latency grows with the work: t = floor + bytes / bandwidth, fitted over the Workloads of a Solution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fib_rmsnorm.analysis.estimate import Estimate
from fib_rmsnorm.analysis.trace_record import TraceRecord
from fib_rmsnorm.student_t import t_quantile

_FEWEST_POINTS = 4
_CONFIDENCE = 0.95


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
    points: int

    @property
    def crossover_bytes(self) -> float:
        """Where moving the bytes takes as long as the floor: below it the floor rules, above it the bandwidth."""
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
    line = _fit_line([(moved, latency) for moved, latency, _ in points])
    if line.slope <= 0 or line.intercept <= 0:
        return None
    t = t_quantile(_CONFIDENCE, len(points) - 2)
    slope = _around(line.slope, t * line.slope_error)
    misses = [(latency / (line.intercept + line.slope * moved) - 1, record) for moved, latency, record in points]
    worst_miss, worst = max(misses, key=lambda miss: abs(miss[0]))
    return Fit(
        solution=points[0][2].solution,
        floor_ms=_around(line.intercept, t * line.intercept_error),
        bandwidth_gb_per_s=Estimate(
            1e-6 / slope.value, 1e-6 / slope.high, 1e-6 / slope.low if slope.low > 0 else math.inf
        ),
        worst=worst,
        worst_miss=worst_miss,
        points=len(points),
    )


@dataclass(frozen=True)
class _Line:
    intercept: float
    slope: float
    intercept_error: float
    slope_error: float


def _fit_line(points: Sequence[tuple[float, float]]) -> _Line:
    """y = intercept + slope * x by relative residuals, with standard errors from their scatter."""
    weights = [1 / y**2 for _, y in points]
    total = sum(weights)
    mean_x = sum(w * x for w, (x, _) in zip(weights, points, strict=True)) / total
    mean_y = sum(w * y for w, (_, y) in zip(weights, points, strict=True)) / total
    spread = sum(w * (x - mean_x) ** 2 for w, (x, _) in zip(weights, points, strict=True))
    slope = sum(w * (x - mean_x) * (y - mean_y) for w, (x, y) in zip(weights, points, strict=True)) / spread
    intercept = mean_y - slope * mean_x
    residuals = (w * (y - intercept - slope * x) ** 2 for w, (x, y) in zip(weights, points, strict=True))
    variance = sum(residuals) / (len(points) - 2)
    return _Line(
        intercept,
        slope,
        math.sqrt(variance * (1 / total + mean_x**2 / spread)),
        math.sqrt(variance / spread),
    )


def _around(value: float, either_side: float) -> Estimate:
    return Estimate(value, value - either_side, value + either_side)
