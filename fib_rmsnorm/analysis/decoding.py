"""The JSON of a Trace -> a TraceRecord, by a decoder that skips what a TraceRecord does not keep.

The schema's own models take 3 times as long.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from sys import intern
from typing import Annotated, Any

import msgspec

from fib_rmsnorm import schema
from fib_rmsnorm.analysis.trace_record import LEAST_LATENCY_MS, PARTS, TraceRecord, TraceSettings
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


class _Evaluation(msgspec.Struct, gc=False):  # of JSON, which has no cycles
    status: str
    environment: msgspec.Raw = msgspec.Raw(b"{}")
    timestamp: str = ""
    log: str = ""
    performance: dict[str, Any] | None = None
    settings: msgspec.Raw = msgspec.Raw(b"null")
    definition_sha256: str | None = None
    solution_sha256: str | None = None
    judged_by: str | None = None


class _Trace(msgspec.Struct, gc=False):
    definition: str
    workload: msgspec.Raw
    solution: str | None = None
    evaluation: _Evaluation | None = None


class NotATraceError(ValueError):
    """The message says what is wrong with the JSON."""


_EVALUATED = ("status", "timestamp", "log", "definition_sha256", "solution_sha256", "judged_by")

_decode_trace: Callable[[bytes | msgspec.Raw], Any] = msgspec.json.Decoder(_Trace).decode
# Thousands of Traces have few different ones, which they share: nobody may change them.
_decode_workload = lru_cache(msgspec.json.Decoder(_Workload).decode)
_decode_environment = lru_cache(msgspec.json.Decoder(_Environment).decode)
_decode_settings = lru_cache(msgspec.json.Decoder(TraceSettings | None).decode)


def decode(data: bytes | msgspec.Raw, line: int, origin: Mapping[str, str | None]) -> TraceRecord | None:
    """Decode a Trace; None for a Workload's. `origin` has a record's path, file and author. Raises NotATraceError."""
    try:
        return _decode(data, line, origin)
    except msgspec.ValidationError as error:
        raise NotATraceError(str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        try:  # Python's json writes NaN and Infinity, which are not JSON: they become null
            strict = msgspec.json.encode(json.loads(bytes(data), parse_constant=lambda _: None))
        except (ValueError, RecursionError):  # also half of a surrogate pair
            raise NotATraceError(f"not JSON: {error}") from None
    try:
        return _decode(strict, line, origin)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NotATraceError(str(error)) from None


def record_of(trace: schema.Trace, number: int) -> TraceRecord | None:
    """Flatten a Trace that was measured just now as the `number`th; None for a Workload's."""
    origin = {"path": "measured now", "file": "measured now", "author": None}
    return decode(trace.model_dump_json().encode(), number, origin)


def _decode(data: bytes | msgspec.Raw, line: int, origin: Mapping[str, str | None]) -> TraceRecord | None:
    trace = _decode_trace(data)
    workload = _decode_workload(bytes(trace.workload))  # checked in a Workload's own Trace too
    evaluation = trace.evaluation
    if evaluation is None:
        return None
    measured = evaluation.performance or {}
    values: dict[str, Any] = {**measured}
    for part in msgspec.convert([measured.get(name) for name in PARTS], list[dict[str, Any] | None]):
        values |= part or {}
    values |= {
        "definition": intern(trace.definition),  # of many Traces few differ
        "workload": workload.uuid,
        "axes": workload.axes,
        "scalars": workload.scalars,
        "solution": intern(trace.solution or ""),
        "settings": _decode_settings(bytes(evaluation.settings)) or TraceSettings(),
        "hardware": _decode_environment(bytes(evaluation.environment)).hardware.removesuffix(INTERPRETER),
        "line": line,
        **origin,
        **{name: getattr(evaluation, name) for name in _EVALUATED},
    }
    record = msgspec.convert(values, TraceRecord)
    record.axes, record.scalars = workload.axes, workload.scalars  # not copies
    record.latency_ms = record.latency_ms or None  # 0 where nothing was timed
    if record.latency_ms and record.latency_ms <= LEAST_LATENCY_MS:
        raise NotATraceError(f"latency_ms is {record.latency_ms:g}: below a picosecond")
    return record
