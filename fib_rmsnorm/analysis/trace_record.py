"""A Trace as one flat record, ready for a table or a DataFrame.

The fields of what was measured are those of the schema's Performance and of its parts, by their names. None means that
the Trace does not say: flashinfer-bench writes fewer fields than this tool.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, Struct, defstruct, to_builtins
from pydantic import BaseModel

from fib_rmsnorm.schema import Ceiling, Chain, Clocks, Performance

LEAST_LATENCY_MS = 1e-9
"""A picosecond: less is not a latency, so its Trace is damaged."""
_Amount = Annotated[float, Meta(ge=0, lt=1e12)]
"""A time, speed or clock; 0 means unknown."""
_Count = Annotated[int, Meta(ge=0, lt=10**18)]
_BOUNDED: dict[Any, Any] = {
    float: _Amount,
    float | None: _Amount | None,
    list[float] | None: list[_Amount] | None,
    int | None: _Count | None,
}
PARTS: dict[str, type[BaseModel]] = {"ceiling": Ceiling, "chain": Chain, "clocks": Clocks}
"""The fields of a Performance that hold further ones."""
_LEFT_OUT = {
    *("launches", "latency_p5_ms", "latency_p95_ms", "as_called_ms", "disturbed_calls", "repeated_trials", "queued"),
    *("library_calls", "copy_hot_ms", "copy_method", "links", "chained_replays", "dependent_replays", "threads"),
    *("chained_a_a_difference", "dependent_a_a_difference", "chained_bare_link_ms", "dependent_bare_link_ms"),
    *("before_mhz", "after_mhz", "during_min_mhz", "during_max_mhz", "memory_mhz", "max_temperature_c"),
    *("throttle_reasons", "other_processes", "other_share", "busy_ms"),
    *("trial_medians_ms", "a_a_difference"),
}
"""Fields that are shown of one Trace alone, if at all: of a million, they would take a sixth of the memory."""


def is_of_cpu(timer: str | None) -> bool:
    """Whether a timer's latencies are a CPU's, whose clock wanders and whose cores are shared."""
    return timer == "cpu_clock"


class TraceSettings(Struct, frozen=True, gc=False):
    """How it was asked to judge and time; tolerances of None are those of the dtype."""

    rtol: float | None = None
    atol: float | None = None
    warmup_runs: int | None = None
    iterations: int | None = None
    num_trials: int | None = None
    l2: str | None = None
    context: str = "isolated"


def _list_fields(*parts: type[BaseModel]) -> Iterator[tuple[str, Any, Any]]:
    """The name, type and default of each field of a Performance and its parts; any may be missing in a Trace.

    The times of a Chain are differences, which may be negative.
    """
    for part in parts:
        for name, each in part.model_fields.items():
            kind: Any = each.annotation if part is Chain else _BOUNDED.get(each.annotation, each.annotation)
            default = () if each.default_factory else False if kind is bool else None
            if name not in PARTS and name not in _LEFT_OUT:
                yield name, kind | None, default


if TYPE_CHECKING:

    class _Measured(Performance, Ceiling, Chain, Clocks):
        # Required in the schema, and yet unknown where nothing was timed or where a Trace lacks the part.
        latency_ms: float | None  # type: ignore[assignment]
        reference_latency_ms: float | None  # type: ignore[assignment]
        empty_ms: float | None  # type: ignore[assignment]
        copy_ms: float | None  # type: ignore[assignment]
        copy_low_ms: float | None  # type: ignore[assignment]
        copy_high_ms: float | None  # type: ignore[assignment]

else:
    _Measured = defstruct("_Measured", _list_fields(Performance, *PARTS.values()), kw_only=True, gc=False)

_NESTED = [(name, defstruct(name, _list_fields(part), gc=False) | None, None) for name, part in PARTS.items()]
NestedPerformance = defstruct("NestedPerformance", [*_list_fields(Performance), *_NESTED], gc=False)
"""The fields of a Performance that records keep, nested as in a Trace: JSON is decoded faster to it than to dicts."""


class TraceRecord(_Measured, kw_only=True, gc=False):
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
        values = to_builtins(self)
        axes, scalars, settings = values.pop("axes"), values.pop("scalars"), values.pop("settings")
        return {**axes, **scalars, **values, **settings}
