"""The JSON of a Trace -> a Record, by a decoder that makes only what a Record keeps."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Annotated

import msgspec

from fib_rmsnorm.analysis.trace_record import Ceiling, Clocks, Errors, Record, Settings, Timing


@dataclass
class _Input:
    type: str = ""
    value: bool | int | float | None = None


@dataclass
class _Workload:
    uuid: str = ""
    axes: dict[str, Annotated[int, msgspec.Meta(ge=0, lt=10**15)]] = field(default_factory=dict)
    inputs: dict[str, _Input] = field(default_factory=dict)

    @cached_property
    def scalars(self) -> dict[str, float]:
        """The scalar inputs."""
        return {name: given.value or 0 for name, given in self.inputs.items() if given.type == "scalar"}


@dataclass
class _Environment:
    hardware: str = ""
    libs: dict[str, str] = field(default_factory=dict)


@dataclass
class _Performance(Timing):
    ceiling: Ceiling | None = None
    clocks: Clocks | None = None


class _Evaluation(msgspec.Struct):
    status: str
    environment: msgspec.Raw = msgspec.Raw(b"{}")
    timestamp: str = ""
    log: str = ""
    correctness: Errors | None = None
    performance: _Performance | None = None
    settings: msgspec.Raw = msgspec.Raw(b"null")
    solution_sha256: str | None = None


class _Trace(msgspec.Struct):
    definition: str
    workload: msgspec.Raw
    solution: str | None = None
    evaluation: _Evaluation | None = None


class NotATraceError(ValueError):
    """The message says what is wrong with the JSON."""


_decode_trace = msgspec.json.Decoder(_Trace).decode
# Few of these differ among thousands of Traces. Records share them, so nobody may change them.
_decode_workload = lru_cache(msgspec.json.Decoder(_Workload).decode)
_decode_environment = lru_cache(msgspec.json.Decoder(_Environment).decode)
_decode_settings = lru_cache(msgspec.json.Decoder(Settings | None).decode)


def decode(data: bytes | msgspec.Raw, path: str, line: int, author: str | None) -> Record | None:
    """Decode a Trace that was read at `path` and `line`; None for a Workload's. Raises NotATraceError."""
    try:
        return _flatten(_decode_trace(data), path, line, author)
    except msgspec.ValidationError as error:
        raise NotATraceError(str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        strict = _as_strict_json(bytes(data), error)
    try:
        return _flatten(_decode_trace(strict), path, line, author)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NotATraceError(str(error)) from None


def _as_strict_json(data: bytes, error: Exception) -> bytes:
    """NaN and Infinity are no JSON, but Python's json and flashinfer-bench write them: they become null."""
    try:
        return msgspec.json.encode(json.loads(data))
    except (ValueError, RecursionError):
        raise NotATraceError(f"not JSON: {error}") from None


# Decoding leaves out what has the value of the class.
_UNKNOWN = {**vars(Errors()), **vars(Timing()), **vars(Ceiling()), **vars(Clocks()), **vars(Settings())}


def _flatten(trace: _Trace, path: str, line: int, author: str | None) -> Record | None:
    evaluation = trace.evaluation
    workload = _decode_workload(bytes(trace.workload))
    if evaluation is None:
        return None
    environment = _decode_environment(bytes(evaluation.environment))
    performance = evaluation.performance
    record = Record.__new__(Record)
    # All at once: to pass sixty arguments takes longer than to decode them.
    record.__dict__ = {
        "definition": trace.definition,
        "workload": workload.uuid or str(workload.axes),  # early versions of flashinfer-bench gave none
        "axes": workload.axes,
        "scalars": workload.scalars,
        "solution": trace.solution or "",
        "author": author,
        "language": None,
        "status": evaluation.status,
        "hardware": environment.hardware,
        "timestamp": evaluation.timestamp,
        "log": evaluation.log,
        "libs": environment.libs,
        "solution_sha256": evaluation.solution_sha256,
        "path": path,
        "line": line,
        **_UNKNOWN,
    }
    settings = _decode_settings(bytes(evaluation.settings))
    parts: list[object] = [settings, evaluation.correctness, performance]
    if performance:
        parts += [performance.ceiling, performance.clocks]
    for part in parts:
        if part is not None:
            record.__dict__.update(vars(part))
    record.__dict__.pop("ceiling", None)
    record.__dict__.pop("clocks", None)
    return record
