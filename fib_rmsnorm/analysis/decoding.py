"""The JSON of a Trace -> a TraceRecord, by a decoder that skips what a TraceRecord does not keep.

The schema tells which part of a Trace has which field; a TraceRecord, which of them are read and within which bounds.
The schema's own models take 4 times as long.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from operator import attrgetter
from typing import Annotated, Any, NamedTuple, get_type_hints

import msgspec
from pydantic import BaseModel

from fib_rmsnorm import schema
from fib_rmsnorm.analysis.trace_record import LEAST_LATENCY_MS, TraceRecord, TraceSettings
from fib_rmsnorm.languages import INTERPRETER


@dataclass
class _Input:
    type: str = ""
    value: bool | int | float | None = None


@dataclass
class _Workload:
    uuid: str
    axes: dict[str, Annotated[int, msgspec.Meta(ge=0, lt=10**15)]] = field(default_factory=dict)
    inputs: dict[str, _Input] = field(default_factory=dict)

    @cached_property
    def scalars(self) -> dict[str, float]:
        """The scalar inputs."""
        return {name: given.value or 0 for name, given in self.inputs.items() if given.type == "scalar"}


@dataclass
class _Environment:
    hardware: str = ""


_HINTS = get_type_hints(TraceRecord, include_extras=True)
_UNKNOWN: dict[str, Any] = {
    each.name: each.default if each.default_factory is msgspec.NODEFAULT else each.default_factory()
    for each in msgspec.structs.fields(TraceRecord)
}
"""The default of each field, for Traces that lack it."""


def _part(model: type[BaseModel], **more: tuple[Any, Any]) -> Any:
    """A Struct of the fields of a part that a record keeps; msgspec takes a third longer for a dataclass.

    `more`: the types and defaults of fields that a record keeps in another form, or not itself.
    """
    kept = [(name, _HINTS[name], _UNKNOWN[name]) for name in model.model_fields if name in _HINTS and name not in more]
    others = [(name, *described) for name, described in more.items()]
    # Of JSON, which has no cycles: the garbage collector need not look into it.
    return msgspec.defstruct(model.__name__, kept + others, gc=False, kw_only=True)


_Ceiling = _part(schema.Ceiling)
_Chain = _part(schema.Chain)
_Clocks = _part(schema.Clocks)
_Performance = _part(
    schema.Performance,
    ceiling=(_Ceiling | None, None),
    chain=(_Chain | None, None),
    clocks=(_Clocks | None, None),
)
_Evaluation = _part(
    schema.Evaluation,
    status=(str, msgspec.NODEFAULT),
    environment=(msgspec.Raw, msgspec.field(default_factory=lambda: msgspec.Raw(b"{}"))),
    timestamp=(str, ""),
    log=(str, ""),
    performance=(_Performance | None, None),
    settings=(msgspec.Raw, msgspec.field(default_factory=lambda: msgspec.Raw(b"null"))),
)
_Trace = _part(
    schema.Trace,
    definition=(str, msgspec.NODEFAULT),
    workload=(msgspec.Raw, msgspec.NODEFAULT),
    solution=(str | None, None),
    evaluation=(_Evaluation | None, None),
)


class Origin(NamedTuple):
    """The source of Traces: the file's path, the path that reports name, and its author."""

    path: str
    file: str
    author: str | None


_KEPT = {
    part: (names, attrgetter(*names))
    for part in (_Evaluation, _Performance, _Ceiling, _Chain)
    if (names := [name for name in part.__struct_fields__ if name in _HINTS])
}
"""The names of a record's fields that are in a part, and what gets their values."""


class NotATraceError(ValueError):
    """The message says what is wrong with the JSON."""


_decode_trace: Callable[[bytes | msgspec.Raw], Any] = msgspec.json.Decoder(_Trace).decode
# Thousands of Traces have few different ones, which they share: nobody may change them.
_decode_workload = lru_cache(msgspec.json.Decoder(_Workload).decode)
_decode_environment = lru_cache(msgspec.json.Decoder(_Environment).decode)
_decode_settings = lru_cache(msgspec.json.Decoder(TraceSettings | None).decode)


def decode(data: bytes | msgspec.Raw, origin: Origin, line: int) -> TraceRecord | None:
    """Decode a Trace; None for a Workload's. Raises NotATraceError."""
    try:
        return _decode(data, origin, line)
    except msgspec.ValidationError as error:
        raise NotATraceError(str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        try:  # Python's json writes NaN and Infinity, which are not JSON: they become null
            strict = msgspec.json.encode(json.loads(bytes(data), parse_constant=lambda _: None))
        except (ValueError, RecursionError):  # also half of a surrogate pair
            raise NotATraceError(f"not JSON: {error}") from None
    try:
        return _decode(strict, origin, line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NotATraceError(str(error)) from None


def record_of(trace: schema.Trace, number: int) -> TraceRecord | None:
    """Flatten a Trace that was measured just now as the `number`th; None for a Workload's."""
    return decode(trace.model_dump_json().encode(), Origin("measured now", "measured now", None), number)


def _decode(data: bytes | msgspec.Raw, origin: Origin, line: int) -> TraceRecord | None:
    trace = _decode_trace(data)
    workload = _decode_workload(bytes(trace.workload))  # checked in a Workload's own Trace too
    evaluation = trace.evaluation
    if evaluation is None:
        return None
    performance = evaluation.performance
    latency_ms = performance.latency_ms if performance else None
    if latency_ms and latency_ms <= LEAST_LATENCY_MS:
        raise NotATraceError(f"latency_ms is {latency_ms:g}: below a picosecond")
    measured = (performance, performance.ceiling, performance.chain) if performance else ()
    values: dict[str, Any] = {}
    for part in (evaluation, *measured):
        if part:
            names, get = _KEPT[type(part)]
            values.update(zip(names, get(part), strict=True))
    values |= {
        "definition": trace.definition,
        "workload": workload.uuid,
        "axes": workload.axes,
        "scalars": workload.scalars,
        "solution": trace.solution or "",
        "settings": _decode_settings(bytes(evaluation.settings)) or TraceSettings(),
        "hardware": _decode_environment(bytes(evaluation.environment)).hardware.removesuffix(INTERPRETER),
        "during_mhz": performance.clocks.during_mhz if performance and performance.clocks else None,
        "latency_ms": latency_ms or None,  # 0 where nothing was timed
        "line": line,
    }
    return TraceRecord(**values, **origin._asdict())
