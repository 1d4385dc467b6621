"""Trace and its parts: upstream's models with the fields a trustworthy number needs.

Every added field is optional, so traces written by flashinfer-bench load here, and its models ignore what
they do not know, so traces written here load there.
"""

from __future__ import annotations

from flashinfer_bench.data import Correctness
from flashinfer_bench.data import Evaluation as UpstreamEvaluation
from flashinfer_bench.data import Performance as UpstreamPerformance
from flashinfer_bench.data import Trace as UpstreamTrace
from pydantic import BaseModel, ConfigDict, Field

__all__ = ["Correctness", "Evaluation", "Performance", "Settings", "Trace"]


class Settings(BaseModel):
    """How an evaluation was asked to judge and time: two results compare only if these agree.

    `rtol` and `atol` of None stand for the defaults of each output's dtype; the tolerances that were applied
    are in `Correctness.extra`.
    """

    model_config = ConfigDict(frozen=True)

    rtol: float | None = Field(default=None, ge=0)
    atol: float | None = Field(default=None, ge=0)
    warmup_runs: int = Field(default=10, ge=0)
    iterations: int = Field(default=50, ge=1)
    num_trials: int = Field(default=3, ge=1)


class Performance(UpstreamPerformance):
    """Latency with its distribution and the mechanism that produced it. `latency_ms` is the median."""

    latency_p5_ms: float | None = None
    latency_p95_ms: float | None = None
    samples: int | None = None
    """How many timed calls the percentiles come from."""
    timer: str | None = None
    """`cupti`, `cuda_events` or `cpu_clock`; numbers of different timers never compare."""
    cold_l2: bool | None = None
    """Whether the GPU's L2 cache was evicted before each timed call."""
    interpreted: bool = False
    """Whether the kernel ran in an interpreter (Triton on CPU): such a time says nothing about the kernel."""
    bytes_moved: int | None = None
    """Bytes of all inputs and outputs, each counted once."""
    bandwidth_gb_per_s: float | None = None
    """`bytes_moved` over the median latency, in 10^9 bytes per second."""
    build_s: float | None = None
    """Seconds the worker took to build or load the solution (a cached build counts as what it took)."""


class Evaluation(UpstreamEvaluation):
    """An evaluation that knows exactly what it evaluated."""

    performance: Performance | None = None
    settings: Settings | None = None
    definition_sha256: str | None = None
    solution_sha256: str | None = None


class Trace(UpstreamTrace):
    """A Trace whose evaluation carries the added fields."""

    evaluation: Evaluation | None = None
