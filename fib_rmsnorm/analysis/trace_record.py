"""A Trace as one flat record, ready for a table or a DataFrame.

A field has the schema's name, by which the decoder finds it in the parts of a Trace. None means that the Trace does not
say: flashinfer-bench writes fewer fields than this tool.
"""

from typing import Annotated, Any

from msgspec import Meta, Struct, field
from msgspec.structs import asdict

LEAST_LATENCY_MS = 1e-9
"""A picosecond: less is not a latency, so its Trace is damaged."""
Amount = Annotated[float, Meta(ge=0, lt=1e12)]
"""A time, speed or clock; 0 means unknown."""
Bytes = Annotated[int, Meta(ge=0, lt=10**18)]


class TraceSettings(Struct, frozen=True, gc=False):
    """How it was asked to judge and time; tolerances of None are those of the dtype."""

    rtol: float | None = None
    atol: float | None = None
    warmup_runs: int | None = None
    iterations: int | None = None
    num_trials: int | None = None
    l2: str | None = None
    context: str = "isolated"


class TraceRecord(Struct, kw_only=True, gc=False):
    """One evaluation, flat: what was evaluated, where and when; where that is written; what was found."""

    definition: str
    workload: str
    """The Workload's uuid."""
    axes: dict[str, int]
    """The variable axes, in the Definition's order."""
    scalars: dict[str, float]
    """The scalar inputs."""
    solution: str
    author: str | None
    language: str | None = None
    """The Solution's author and language, if its registry was found."""
    status: str
    hardware: str
    """The device, also where an interpreter ran there."""
    timestamp: str
    log: str
    settings: TraceSettings
    definition_sha256: str | None = None
    solution_sha256: str | None = None
    judged_by: str | None = None
    """The operator that judged the outputs; `reference` if the Definition's reference alone did."""
    path: str
    """The file in which it was read."""
    file: str
    """The path from the registry's root, or outside of one the file's name: a report names no folder of a machine."""
    line: int
    """The line of a .jsonl file, or the item of a .json array, from 1."""

    # The latency, and how sure it is.
    latency_ms: Amount | None = None
    """None, too, where a Trace says 0: an interpreter ran the kernel, and nothing was timed."""
    reference_latency_ms: Amount | None = None
    reference_low_ms: Amount | None = None
    reference_high_ms: Amount | None = None
    reference_trial_scatter: Amount | None = None
    reference_pieces: int | None = None
    timer: str | None = None
    cold_l2: bool | None = None
    interpreted: bool = False
    samples: int | None = None
    trials: int | None = None
    trial_medians_ms: list[Amount] | None = None
    trial_scatter: Amount | None = None
    pieces: int | None = None
    latency_low_ms: Amount | None = None
    latency_high_ms: Amount | None = None
    hot_latency_ms: float | None = None
    a_a_difference: float | None = None
    bytes_moved: Bytes | None = None
    bandwidth_gb_per_s: Amount | None = None
    percent_of_copy: Amount | None = None
    host_overhead_us: float | None = None
    first_call_ms: float | None = None
    build_s: float | None = None
    peak_memory_bytes: int | None = None
    device_session: str | None = None
    noisy: list[str] = field(default_factory=list)

    # What bounds every Solution of the Workload.
    empty_ms: Amount | None = None
    empty_host_us: float | None = None
    copy_ms: Amount | None = None
    copy_low_ms: Amount | None = None
    copy_high_ms: Amount | None = None
    peak_bandwidth_gb_per_s: Amount | None = None

    # What a call costs in a CUDA graph, without and with programmatic dependent launch around it.
    chained_latency_ms: float | None = None
    chained_low_ms: float | None = None
    chained_high_ms: float | None = None
    dependent_latency_ms: float | None = None
    dependent_low_ms: float | None = None
    dependent_high_ms: float | None = None
    chain_refused: str | None = None
    chain_noisy: list[str] = field(default_factory=list)

    # The device during the trials.
    during_mhz: Amount | None = None

    @property
    def passed(self) -> bool:
        """Whether the outputs were correct."""
        return self.status == "PASSED"

    @property
    def is_native(self) -> bool:
        """Whether there is a latency: it passed, and no interpreter ran it."""
        return bool(self.latency_ms) and self.passed

    @property
    def place(self) -> str:
        """`file:line` of the Trace."""
        return f"{self.file}:{self.line}"

    def as_row(self) -> dict[str, Any]:
        """Every field by name, with a column for each axis, scalar and setting instead of what holds them."""
        values = asdict(self)
        axes, scalars, settings = values.pop("axes"), values.pop("scalars"), values.pop("settings")
        return {**axes, **scalars, **values, **asdict(settings)}
