"""The JSON of a Trace -> a TraceRecord, by a decoder that skips what a TraceRecord does not keep.

The schema tells which part of a Trace has which field; a TraceRecord, which of them are read and within which bounds.
The schema's own models take 4 times as long. `decode_facts` finds by the same decoder what chooses among Traces, in two
thirds of the time.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import MISSING, dataclass, field, fields
from functools import cached_property, lru_cache
from operator import attrgetter
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, get_type_hints

import msgspec
from pydantic import BaseModel

from fib_rmsnorm import schema
from fib_rmsnorm.analysis.trace_record import LEAST_LATENCY_MS, TraceRecord
from fib_rmsnorm.languages import INTERPRETER


@dataclass
class _Input:
    type: str = ""
    value: bool | int | float | None = None


@dataclass
class _Workload:
    uuid: str = ""
    axes: dict[str, Annotated[int, msgspec.Meta(ge=0, lt=10**15)]] = field(default_factory=dict)
    inputs: dict[str, _Input] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What tells it from others: early versions of flashinfer-bench gave no uuid."""
        return self.uuid or str(self.axes)

    @cached_property
    def sizes(self) -> tuple[tuple[str, int], ...]:
        """The variable axes."""
        return tuple(self.axes.items())

    @cached_property
    def scalars(self) -> dict[str, float]:
        """The scalar inputs."""
        return {name: given.value or 0 for name, given in self.inputs.items() if given.type == "scalar"}


@dataclass
class _Environment:
    hardware: str = ""
    libs: dict[str, str] = field(default_factory=dict)

    @cached_property
    def device(self) -> str:
        """The hardware, by which Traces of an interpreter stand beside those of its processor."""
        return self.hardware.removesuffix(INTERPRETER)


_Error = float | Literal["Infinity", "-Infinity", "NaN"] | None
"""flashinfer-bench's models, and ours with them, write what JSON has no number for as a string."""


_HINTS = get_type_hints(TraceRecord, include_extras=True)
_UNKNOWN: dict[str, Any] = {
    each.name: each.default_factory() if each.default_factory is not MISSING else None for each in fields(TraceRecord)
} | {each.name: each.default for each in fields(TraceRecord) if each.default is not MISSING}
"""What a record has where its Trace does not tell."""


def _part(model: type[BaseModel], **more: tuple[Any, Any]) -> Any:
    """A Struct of the fields of a part that a record keeps; msgspec takes a third longer for a dataclass.

    `more`: the types and defaults of fields that a record keeps in another form, or not itself.
    """
    kept = [(name, _HINTS[name], _UNKNOWN[name]) for name in model.model_fields if name in _HINTS and name not in more]
    others = [(name, *described) for name, described in more.items()]
    return msgspec.defstruct(model.__name__, kept + others, gc=False, kw_only=True)  # of JSON, which has no cycles


_Correctness = _part(
    schema.Correctness,
    max_absolute_error=(_Error, None),
    max_relative_error=(_Error, None),
)
_Ceiling = _part(schema.Ceiling)
_Chain = _part(schema.Chain)
_Clocks = _part(schema.Clocks)
_Settings = _part(schema.Settings)
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
    correctness=(_Correctness | None, None),
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


class TraceFacts(NamedTuple):
    """What chooses among Traces, as in a TraceRecord; of many Traces few differ."""

    definition: str
    workload: str
    sizes: tuple[tuple[str, int], ...]
    """The variable axes."""
    solution: str
    definition_sha256: str | None
    solution_sha256: str | None
    hardware: str
    timer: str | None
    cold_l2: bool | None
    settings: str
    """The settings as JSON."""
    failed: bool
    """Whether there is no latency."""

    @property
    def axes(self) -> dict[str, int]:
        """The variable axes, as a record has them."""
        return dict(self.sizes)


class NotATraceError(ValueError):
    """The message says what is wrong with the JSON."""


_decode_trace: Callable[[bytes | msgspec.Raw], Any] = msgspec.json.Decoder(_Trace).decode
# Thousands of Traces have few different ones, which their records share: nobody may change them.
_decode_workload = lru_cache(msgspec.json.Decoder(_Workload).decode)
_decode_environment = lru_cache(msgspec.json.Decoder(_Environment).decode)
_decode_settings = lru_cache(msgspec.json.Decoder(_Settings | None).decode)


_Read = TypeVar("_Read")


def decode(data: bytes | msgspec.Raw, path: str, line: int, author: str | None) -> TraceRecord | None:
    """Decode a Trace that was read at `path` and `line`; None for a Workload's. Raises NotATraceError."""
    record = _read(data, _flatten_decoded)
    if record is not None:
        record.path, record.file, record.line, record.author = path, path, line, author
    return record


def record_of(trace: schema.Trace, number: int) -> TraceRecord | None:
    """Flatten a Trace that was measured just now as the `number`th; None for a Workload's."""
    evaluation = trace.evaluation
    if evaluation is None:
        return None
    workload = msgspec.convert(trace.workload.model_dump(), _Workload)
    environment = msgspec.convert(evaluation.environment.model_dump(), _Environment)
    record = _flatten(trace, workload, environment, evaluation.settings)
    record.status = evaluation.status.value
    record.path, record.file, record.line, record.author = "measured now", "measured now", number, None
    return record


class FoundFacts(NamedTuple):
    """What chooses among Traces, with what each has of its own."""

    shared: TraceFacts
    timestamp: str
    during_mhz: float | None


def decode_facts(data: bytes) -> FoundFacts | None:
    """What chooses among Traces; None for a Workload's. Raises NotATraceError as `decode` does."""
    return _read(data, _find_facts)


def _read(data: bytes | msgspec.Raw, finish: Callable[[Any], _Read]) -> _Read:
    try:
        return finish(_decode_trace(data))
    except msgspec.ValidationError as error:
        raise NotATraceError(str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        strict = _as_strict_json(bytes(data), error)
    try:
        return finish(_decode_trace(strict))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NotATraceError(str(error)) from None


def _as_strict_json(data: bytes, error: Exception) -> bytes:
    """Python's json writes NaN and Infinity, which are not JSON: errors become strings, and other numbers null."""
    try:
        found, named = json.loads(data), json.loads(data, parse_constant=str)
    except (ValueError, RecursionError):
        raise NotATraceError(f"not JSON: {error}") from None
    with suppress(TypeError, KeyError):  # not a Trace, or one without errors
        found["evaluation"]["correctness"] = named["evaluation"]["correctness"]
    try:
        return msgspec.json.encode(found)
    except UnicodeEncodeError:  # half of a surrogate pair
        raise NotATraceError(f"not JSON: {error}") from None


def _find_facts(trace: Any) -> FoundFacts | None:
    workload = _decode_workload(bytes(trace.workload))
    evaluation = trace.evaluation
    if evaluation is None:
        return None
    performance = evaluation.performance
    facts = TraceFacts(
        trace.definition,
        workload.name,
        workload.sizes,
        trace.solution or "",
        evaluation.definition_sha256,
        evaluation.solution_sha256,
        _decode_environment(bytes(evaluation.environment)).device,
        performance.timer if performance else None,
        performance.cold_l2 if performance else None,
        _encode_settings(bytes(evaluation.settings)),
        _find_latency(performance) is None,
    )
    clocks = performance.clocks if performance else None
    return FoundFacts(facts, evaluation.timestamp, clocks.during_mhz if clocks else None)


def _find_latency(performance: schema.Performance | None) -> float | None:
    """The latency; None for the 0 of what was not timed. Raises NotATraceError."""
    latency_ms = performance.latency_ms if performance else None
    if latency_ms and latency_ms <= LEAST_LATENCY_MS:
        raise NotATraceError(f"latency_ms is {latency_ms:g}: below a picosecond")
    return latency_ms or None


@lru_cache
def _encode_settings(settings: bytes) -> str:
    return msgspec.json.encode(_decode_settings(settings) or _Settings()).decode()


_FLAT = [
    (names, attrgetter(*names))
    for part in (_Evaluation, _Settings, _Correctness, _Performance, _Ceiling, _Chain, _Clocks)
    if (names := [name for name in part.__struct_fields__ if name in _HINTS])
]
"""The names of a record's fields that are in a part, and what gets their values."""


def _flatten_decoded(trace: Any) -> TraceRecord | None:
    workload = _decode_workload(bytes(trace.workload))  # checked in a Workload's own Trace too
    evaluation = trace.evaluation
    if evaluation is None:
        return None
    environment, settings = bytes(evaluation.environment), bytes(evaluation.settings)
    return _flatten(trace, workload, _decode_environment(environment), _decode_settings(settings))


def _flatten(trace: Any, workload: _Workload, environment: _Environment, settings: Any) -> TraceRecord:
    """Flatten a Trace: a decoded one, or the schema's, which has these fields too and others."""
    evaluation = trace.evaluation
    performance = evaluation.performance
    measured = (performance.ceiling, performance.chain, performance.clocks) if performance else (None, None, None)
    values = {
        **_UNKNOWN,
        "definition": trace.definition,
        "workload": workload.name,
        "axes": workload.axes,
        "scalars": workload.scalars,
        "solution": trace.solution or "",
        "hardware": environment.device,
        "libs": environment.libs,
    }
    parts = (evaluation, settings, evaluation.correctness, performance, *measured)
    for (names, get), part in zip(_FLAT, parts, strict=True):
        if part:
            values.update(zip(names, get(part), strict=True))
    for error in _Correctness.__struct_fields__:
        if values[error] is not None:
            values[error] = float(values[error])
    values["latency_ms"] = _find_latency(performance)
    record = TraceRecord.__new__(TraceRecord)
    record.__dict__ = values  # to pass sixty arguments takes longer than to decode them
    return record
