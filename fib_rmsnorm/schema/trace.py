"""Trace and its parts: upstream's models with the fields a trustworthy number needs.

Every added field is optional, so traces written by flashinfer-bench load here, and its models ignore what
they do not know, so traces written here load there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from flashinfer_bench.data import Correctness
from flashinfer_bench.data import Evaluation as UpstreamEvaluation
from flashinfer_bench.data import Performance as UpstreamPerformance
from flashinfer_bench.data import Trace as UpstreamTrace
from pydantic import BaseModel, ConfigDict, Field

__all__ = ["Ceiling", "Clocks", "Correctness", "Evaluation", "KernelLaunch", "Performance", "Settings", "Trace"]

# Outputs are compared in float32, which has no numbers beyond.
_Tolerance = Annotated[float, Field(ge=0, le=3.4e38, allow_inf_nan=False)]


class Settings(BaseModel):
    """How an evaluation was asked to judge and time: two results compare only if these agree.

    `rtol` and `atol` of None stand for the defaults of each output's dtype; the tolerances that were applied
    are in `Correctness.extra`.
    """

    model_config = ConfigDict(frozen=True)

    rtol: _Tolerance | None = None
    atol: _Tolerance | None = None
    warmup_runs: int = Field(default=10, ge=0)
    iterations: int | None = Field(default=None, ge=1)
    """Timed calls of a trial; None takes as many as it needs to know the median within 1%, or a budget allows."""
    num_trials: int = Field(default=4, ge=1)
    """Trials, at the least; those of all solutions on a workload are interleaved."""
    l2: Literal["cold", "hot", "both"] = "cold"
    """Whether a GPU's L2 cache is evicted before each timed call; `both` adds `hot_latency_ms`."""


class Ceiling(BaseModel):
    """What bounds every solution of a Workload, measured in the same run by the same timer."""

    empty_ms: float
    """An empty kernel (on CPU: an empty call): the floor of any launch."""
    empty_host_us: float | None = None
    """What the host takes to issue the empty kernel, as `host_overhead_us`; None on CPU."""
    copy_ms: float
    """The fastest of several copies that read and write as many bytes as the Workload's tensors have."""
    copy_low_ms: float
    copy_high_ms: float
    """The 95% confidence interval of the copy's median."""
    copy_hot_ms: float | None = None
    """The copy without evicting L2: that it differs from `copy_ms` shows that the eviction works."""
    copy_method: str
    note: str | None = None
    threads: list[int] | None = None
    """Cores that a CPU's copy was pinned to; None for OpenMP's threads."""
    peak_bandwidth_gb_per_s: float | None = None
    """The memory's clock times the width of its bus: what the datasheet promises."""


class Clocks(BaseModel):
    """The device around and during the trials; None is what cannot be told."""

    before_mhz: float | None = None
    during_mhz: float | None = None
    """Median; of a GPU's multiprocessors or a CPU's cores."""
    after_mhz: float | None = None
    during_min_mhz: float | None = None
    during_max_mhz: float | None = None
    memory_mhz: float | None = None
    max_temperature_c: float | None = None
    throttle_reasons: list[str] | None = None
    other_processes: int | None = None


_Size = Annotated[int, Field(ge=0, lt=1 << 32)]


@dataclass(frozen=True)
class KernelLaunch:
    """A kernel as it was launched in a timed call. A plain dataclass: it is made beside untrusted code."""

    name: Annotated[str, Field(max_length=256)]
    """As the driver knows it: mangled if it is from C++, cut if it is long."""
    grid: tuple[_Size, _Size, _Size]
    block: tuple[_Size, _Size, _Size]
    registers: _Size
    """Of a thread."""
    static_shared_bytes: _Size
    dynamic_shared_bytes: _Size


class Performance(UpstreamPerformance):
    """Latency with its distribution, and all that says how far to trust it. `latency_ms` is the median."""

    timer: str | None = None
    """`cupti`, `cuda_events` or `cpu_clock`; numbers of different timers never compare."""
    cold_l2: bool | None = None
    """Whether the GPU's L2 cache was evicted before each timed call."""
    interpreted: bool = False
    """Whether the kernel ran in an interpreter (Triton on CPU): such a time says nothing about the kernel."""

    samples: int | None = None
    """How many timed calls the numbers below come from, over all trials."""
    trials: int | None = None
    trial_medians_ms: list[float] | None = None
    """The median of each trial: how much they scatter says more than the calls within one trial."""
    stopped_by: Literal["interval", "budget", "iterations"] | None = None
    """Why timing ended: the interval was within 1%, the time was spent, or the number of calls was given."""
    repeated_trials: list[str] = Field(default_factory=list)
    """What went wrong with trials that were measured again; empty if none was."""
    latency_low_ms: float | None = None
    latency_high_ms: float | None = None
    """The 95% confidence interval of the median."""
    latency_p5_ms: float | None = None
    latency_p95_ms: float | None = None
    busy_ms: float | None = None
    """Median over calls of the sum of the durations of all device work; the latency is the span."""
    pieces: int | None = None
    """Kernels, copies and fills of a call."""
    launches: list[KernelLaunch] | None = None
    """The first kernels of the last timed call, in the order they started; None where the timer has no records."""
    hot_latency_ms: float | None = None
    """Median latency with the inputs and outputs in cache, if asked for."""
    a_a_difference: float | None = None
    """Relative difference between the medians of the last and the first trial."""

    speedup_low: float | None = None
    speedup_high: float | None = None
    """Range of the speedup over the interleaved trials."""
    bytes_moved: int | None = None
    """Bytes of all inputs and outputs, each counted once."""
    bandwidth_gb_per_s: float | None = None
    """`bytes_moved` over the median latency, in 10^9 bytes per second."""

    ceiling: Ceiling | None = None
    percent_of_copy: float | None = None
    """The copy's latency over this one's, in percent: 100 is as fast as the bytes can be moved."""

    host_overhead_us: float | None = None
    """Least host time to issue a call without waiting for it, before its trials and after, on each of several
    processors, with no timer attached."""
    first_call_ms: float | None = None
    """Duration of the first call on this Workload, with whatever it compiles, tunes or allocates."""
    build_s: float | None = None
    """Seconds the worker took to build or load the solution (a cached build counts as what it took)."""
    peak_memory_bytes: int | None = None
    """Device memory that a call allocates beyond its outputs."""

    library_calls: list[str] | None = None
    """Operators of torch that a call of a solution in another language than Python ran, other than to make and
    move tensors."""

    clocks: Clocks | None = None
    device_session: str | None = None
    """A digest of which device this was and when its machine was started: numbers of one session compare closer."""
    suspect: list[str] = Field(default_factory=list)
    """Reasons not to trust this number; empty if none was found."""


class Evaluation(UpstreamEvaluation):
    """An evaluation that knows exactly what it evaluated."""

    performance: Performance | None = None
    settings: Settings | None = None
    definition_sha256: str | None = None
    solution_sha256: str | None = None
    parameters: dict[str, int] | None = None
    """What a tuned Solution was launched with, when `tune` tried it."""
    multiprocessors: int | None = None
    """Of the GPU, where parameters were tried."""


class Trace(UpstreamTrace):
    """A Trace whose evaluation carries the added fields."""

    evaluation: Evaluation | None = None
