"""The JSON of a Trace -> a TraceRecord, by a decoder that skips what a TraceRecord does not keep.

`decode_facts` finds by the same decoder what chooses among Traces, in two thirds of the time. The classes mirror
those of the schema, which takes 4 times as long; a test compares their fields.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from functools import cache, cached_property, lru_cache, reduce
from operator import or_
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from fib_rmsnorm.analysis.trace_record import (
    LEAST_LATENCY_MS,
    Errors,
    RecordedCeiling,
    RecordedChain,
    RecordedClocks,
    RecordedSettings,
    Timing,
    TraceRecord,
)
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


@dataclass
class _Correctness:
    max_absolute_error: _Error = None
    max_relative_error: _Error = None


@dataclass
class _Performance(Timing):
    ceiling: RecordedCeiling | None = None
    chain: RecordedChain | None = None
    clocks: RecordedClocks | None = None


@dataclass
class _Evaluation:
    status: str
    environment: msgspec.Raw = field(default_factory=lambda: msgspec.Raw(b"{}"))
    timestamp: str = ""
    log: str = ""
    correctness: _Correctness | None = None
    performance: _Performance | None = None
    settings: msgspec.Raw = field(default_factory=lambda: msgspec.Raw(b"null"))
    definition_sha256: str | None = None
    solution_sha256: str | None = None
    judged_by: str | None = None


@dataclass
class _Trace:
    definition: str
    workload: msgspec.Raw
    solution: str | None = None
    evaluation: _Evaluation | None = None


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
    during_mhz: float | None
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


@cache
def _as_struct(kind: Any) -> Any:
    """A type with a Struct, which takes msgspec three quarters of the time, in the place of each dataclass in it."""
    if isinstance(kind, type) and is_dataclass(kind):
        hints = get_type_hints(kind, include_extras=True)
        described = ((each.name, _as_struct(hints[each.name]), _default(each)) for each in fields(kind))
        return msgspec.defstruct(kind.__name__, described, gc=False)  # of JSON, which has no cycles
    return reduce(or_, map(_as_struct, get_args(kind))) if get_origin(kind) in (Union, UnionType) else kind


def _default(described: Field[Any]) -> Any:
    if described.default_factory is not MISSING:
        return msgspec.field(default_factory=described.default_factory)
    return msgspec.NODEFAULT if described.default is MISSING else described.default


_as_values: Callable[[Any], dict[str, Any]] = msgspec.structs.asdict
_decode_trace: Callable[[bytes | msgspec.Raw], _Trace] = msgspec.json.Decoder(_as_struct(_Trace)).decode
# Thousands of Traces have few different ones, which their records share: nobody may change them.
_decode_workload = lru_cache(msgspec.json.Decoder(_Workload).decode)
_decode_environment = lru_cache(msgspec.json.Decoder(_Environment).decode)
_decode_settings = lru_cache(msgspec.json.Decoder(RecordedSettings | None).decode)


_Read = TypeVar("_Read")


def decode(data: bytes | msgspec.Raw, path: str, line: int, author: str | None) -> TraceRecord | None:
    """Decode a Trace that was read at `path` and `line`; None for a Workload's. Raises NotATraceError."""
    return _read(data, lambda trace: _flatten(trace, path, line, author))


def decode_facts(data: bytes) -> tuple[TraceFacts, str] | None:
    """What chooses among Traces, and the timestamp; None for a Workload's. Raises NotATraceError as `decode` does."""
    return _read(data, _find_facts)


def _read(data: bytes | msgspec.Raw, finish: Callable[[_Trace], _Read]) -> _Read:
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


def _find_facts(trace: _Trace) -> tuple[TraceFacts, str] | None:
    workload = _describe_workload(bytes(trace.workload))
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
        performance.clocks.during_mhz if performance and performance.clocks else None,
        performance.cold_l2 if performance else None,
        _encode_settings(bytes(evaluation.settings)),
        _find_latency(performance) is None,
    )
    return facts, evaluation.timestamp


def _find_latency(performance: _Performance | None) -> float | None:
    """The latency; None for the 0 of what was not timed. Raises NotATraceError."""
    latency_ms = performance.latency_ms if performance else None
    if latency_ms and latency_ms <= LEAST_LATENCY_MS:
        raise NotATraceError(f"latency_ms is {latency_ms:g}: below a picosecond")
    return latency_ms or None


class _DescribedWorkload(NamedTuple):
    name: str
    sizes: tuple[tuple[str, int], ...]


@lru_cache
def _describe_workload(workload: bytes) -> _DescribedWorkload:
    decoded = _decode_workload(workload)
    return _DescribedWorkload(decoded.name, tuple(decoded.axes.items()))


@lru_cache
def _encode_settings(settings: bytes) -> str:
    return msgspec.json.encode(_decode_settings(settings) or RecordedSettings()).decode()


# What a Trace leaves out has the class's default, and so is not in the object's own variables.
_UNKNOWN: dict[str, Any] = {
    name: value
    for part in (Errors(), Timing(), RecordedCeiling(), RecordedChain(), RecordedClocks(), RecordedSettings())
    for name, value in vars(part).items()
}


def _flatten(trace: _Trace, path: str, line: int, author: str | None) -> TraceRecord | None:
    workload = _decode_workload(bytes(trace.workload))  # checked in a Workload's own Trace too
    if trace.evaluation is None:
        return None
    read = {"path": path, "file": path, "line": line, "author": author}
    values = {**_origin(trace, trace.evaluation, workload), **read, **_UNKNOWN}
    for found in _parts(trace.evaluation):
        values.update(found)
    values["latency_ms"] = _find_latency(trace.evaluation.performance)
    for part in ("ceiling", "chain", "clocks"):
        values.pop(part, None)
    record = TraceRecord.__new__(TraceRecord)
    record.__dict__ = values  # to pass sixty arguments takes longer than to decode them
    return record


def _origin(trace: _Trace, evaluation: _Evaluation, workload: _Workload) -> dict[str, Any]:
    environment = _decode_environment(bytes(evaluation.environment))
    return {
        "definition": trace.definition,
        "workload": workload.name,
        "axes": workload.axes,
        "scalars": workload.scalars,
        "solution": trace.solution or "",
        "language": None,
        "status": evaluation.status,
        "hardware": environment.device,
        "timestamp": evaluation.timestamp,
        "log": evaluation.log,
        "libs": environment.libs,
        "definition_sha256": evaluation.definition_sha256,
        "solution_sha256": evaluation.solution_sha256,
        "judged_by": evaluation.judged_by,
    }


def _parts(evaluation: _Evaluation) -> Iterator[dict[str, Any]]:
    """The values of the record by name, part by part."""
    settings, correctness = _decode_settings(bytes(evaluation.settings)), evaluation.correctness
    if settings:
        yield vars(settings)
    if correctness:
        errors = _as_values(correctness)
        yield {name: None if value is None else float(value) for name, value in errors.items()}
    if performance := evaluation.performance:
        measured = (performance, performance.ceiling, performance.chain, performance.clocks)
        yield from (_as_values(each) for each in measured if each)
