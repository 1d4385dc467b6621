"""The measurement: Performance and its parts, and the requested Settings.

All fields that flashinfer-bench's models lack are optional, and those ignore them, so Traces load in both directions.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from fib_rmsnorm.schema import upstream

# Outputs are compared in float32, and this is near its maximum.
_Tolerance = Annotated[float, Field(ge=0, le=3.4e38, allow_inf_nan=False)]


class Settings(BaseModel, frozen=True):
    """The requested settings of judging and timing; results with different settings cannot be compared.

    With `rtol` and `atol` of None, each output's dtype decides; `Correctness.extra` holds the applied tolerances.
    """

    rtol: _Tolerance | None = None
    atol: _Tolerance | None = None
    warmup_runs: int = Field(default=10, ge=0)
    iterations: int | None = Field(default=None, ge=1)
    """Timed calls per trial; None continues until the median is known within 1%, or the time budget is spent."""
    num_trials: int = Field(default=4, ge=1)
    """Minimum number of trials; the trials of all Solutions on a Workload are interleaved."""
    l2: Literal["cold", "hot", "both"] = "cold"
    """`cold` evicts a GPU's L2 cache before each timed call, `hot` does not; `both` is cold plus `hot_latency_ms`."""
    context: Literal["isolated", "graph"] = "isolated"
    """`graph` also measures what a call costs in a CUDA graph between other kernels: the Performance's `chain`."""


class Ceiling(BaseModel):
    """Measured bounds for every Solution on a Workload, from the same run and the same timer."""

    empty_ms: float
    """Latency of an empty kernel (on CPU: an empty call): the minimum of any launch."""
    empty_host_us: float | None = None
    """Host time to issue the empty kernel, measured like `host_overhead_us`; None on CPU."""
    copy_ms: float
    """Latency of the fastest of several copies that read and write as many bytes as the Workload's tensors hold."""
    copy_low_ms: float
    copy_high_ms: float
    """Upper bound of the 95% confidence interval of `copy_ms`; `copy_low_ms` is the lower bound."""
    copy_hot_ms: float | None = None
    """Latency of the copy without evicting L2; a difference from `copy_ms` shows that the eviction works."""
    copy_method: str
    note: str | None = None
    threads: list[int] | None = None
    """Cores to which a CPU's copy was pinned; None if it used OpenMP's threads."""
    peak_bandwidth_gb_per_s: float | None = None
    """Theoretical bandwidth: the memory's clock times its bus width."""


class Clocks(BaseModel):
    """The device before, during and after the trials; None means unknown."""

    before_mhz: float | None = None
    during_mhz: float | None = None
    """Median clock during the trials, of a GPU's multiprocessors or a CPU's cores."""
    after_mhz: float | None = None
    during_min_mhz: float | None = None
    during_max_mhz: float | None = None
    memory_mhz: float | None = None
    max_temperature_c: float | None = None
    throttle_reasons: list[str] | None = None
    other_processes: int | None = None
    """On a GPU."""
    other_share: float | None = None
    """The share of a CPU's cores that other processes took during the trials."""


class Chain(BaseModel):
    """The cost of a call in a CUDA graph, between a producer that has just written its input and a consumer.

    The graph has `links` of these three kernels; the cost is the difference to the same graph without the calls.
    `dependent_*` is the same with producers and consumers that are launched by programmatic dependent launch.
    """

    links: int
    chained_latency_ms: float | None = None
    """The median over the replays; None if the calls cannot be captured."""
    chained_low_ms: float | None = None
    chained_high_ms: float | None = None
    """Upper bound of the 95% confidence interval of `chained_latency_ms`; `chained_low_ms` is the lower bound."""
    chained_a_a_difference: float | None = None
    """Relative difference between the medians of the later and the earlier half of the trials."""
    chained_bare_link_ms: float | None = None
    """The cost of a link without the call: producer and consumer."""
    chained_replays: int | None = None
    dependent_latency_ms: float | None = None
    """None also where the GPU has no programmatic dependent launch."""
    dependent_low_ms: float | None = None
    dependent_high_ms: float | None = None
    dependent_a_a_difference: float | None = None
    dependent_bare_link_ms: float | None = None
    dependent_replays: int | None = None
    chain_refused: str | None = None
    """Why the Solution's calls cannot be captured in a graph."""
    chain_noisy: list[str] = Field(default_factory=list)
    """Conditions that the intervals cannot show: a clock that moved, or another process on the device."""
    clocks: Clocks | None = None
    """The device before, during and after the replays."""


class Performance(upstream.Performance, use_attribute_docstrings=False):
    """Latency with its distribution, and the evidence for how sure it is.

    `latency_ms` is the median, and `speedup_factor` is `reference_latency_ms` divided by it.
    """

    timer: str | None = None
    """`cupti`, `cuda_events` or `cpu_clock`; numbers of different timers cannot be compared."""
    cold_l2: bool | None = None
    """Whether the GPU's L2 cache was evicted before each timed call."""
    interpreted: bool = False
    """Whether an interpreter ran the kernel (Triton on a CPU): it was judged and not timed, and all numbers are 0."""

    samples: int | None = None
    """Number of timed calls in all trials from which the numbers come."""
    disturbed_calls: int | None = None
    """Number of timed calls on a CPU whose threads had to wait for a core. `samples` counts only the others, if any. If
    these are too few, that is a mark in `noisy`, and `latency_low_ms` is 0: only an upper bound is known."""
    trials: int | None = None
    trial_medians_ms: list[float] | None = None
    """The median of each trial. Their scatter shows the uncertainty better than the calls within one trial do."""
    trial_scatter: float | None = None
    """The scatter of the trials' medians: a relative standard deviation, estimated from their quartiles."""
    stopped_by: Literal["interval", "budget", "iterations"] | None = None
    """Why timing ended: the interval was within 1%, the time budget was spent, or the number of calls was given."""
    repeated_trials: list[str] = Field(default_factory=list)
    """Why trials were repeated; empty if none was."""
    latency_low_ms: float | None = None
    latency_high_ms: float | None = None
    """Upper bound of the 95% confidence interval of the median; `latency_low_ms` is the lower bound."""
    latency_p5_ms: float | None = None
    latency_p95_ms: float | None = None
    busy_ms: float | None = None
    """Median over calls of the summed durations of all device work; the latency is the span from first to last."""
    pieces: int | None = None
    """Number of kernels, copies and fills per call."""
    launches: list[dict[str, Any]] | None = None
    """The first kernels of the last timed call, which earlier versions recorded; their seals cover it."""
    queued: bool | None = None
    """Whether the GPU was held until the host had issued each call, so that its kernels did not wait for the host; not
    for a call that waits for the device itself. None on a CPU."""
    as_called_ms: float | None = None
    """Median span on an idle GPU, which contains the time that kernels wait for the host; None if a call runs only one
    kernel."""
    hot_latency_ms: float | None = None
    """Median latency with the inputs and outputs in cache, if requested."""
    a_a_difference: float | None = None
    """Relative difference between the medians of the last and the first trial."""

    reference_low_ms: float | None = None
    reference_high_ms: float | None = None
    """Upper bound of the 95% confidence interval of `reference_latency_ms`; `reference_low_ms` is the lower bound."""
    reference_trial_scatter: float | None = None
    """`trial_scatter` of the reference's trials."""
    reference_pieces: int | None = None
    """`pieces` of the reference's calls."""
    bytes_moved: int | None = None
    """Bytes of all inputs and outputs, each counted once."""
    bandwidth_gb_per_s: float | None = None
    """`bytes_moved` divided by the median latency, in 10^9 bytes per second."""

    ceiling: Ceiling | None = None
    percent_of_copy: float | None = None
    """Latency of the copy divided by this latency, in percent: at 100 the kernel is as fast as the copy."""

    chain: Chain | None = None
    """The cost of a call in a CUDA graph between other kernels, if requested."""

    host_overhead_us: float | None = None
    """Minimum host time to issue a call without waiting for it, without a timer attached. Measured before and after
    the trials, on several processors."""
    first_call_ms: float | None = None
    """Duration of the first call on this Workload, including what it compiles, tunes or allocates."""
    build_s: float | None = None
    """Seconds that the worker took to build the Solution, or to load a cached build."""
    peak_memory_bytes: int | None = None
    """Memory of the device that a call allocates through torch beyond its outputs."""

    library_calls: list[str] | None = None
    """torch operators that a call ran, except those that create or move tensors; only for languages other than
    Python."""

    clocks: Clocks | None = None
    device_session: str | None = None
    """A digest of the device's identity and its machine's boot: results of one session differ less."""
    noisy: list[str] = Field(default_factory=list)
    """Conditions that the interval cannot show: a clock that moved, another process on the GPU, faster than the limit;
    on a CPU, too few undisturbed calls."""
