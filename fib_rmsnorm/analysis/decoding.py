"""The JSON of a Trace -> a TraceRecord, by a decoder that skips what a TraceRecord does not keep.

The schema tells which part of a Trace has which field; a TraceRecord, which of them are read and within which bounds.
The schema's own models take 4 times as long. A decoded Trace takes 2 kB, and a TraceRecord twice as much and half the
time again, so only those that are asked for are flattened.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields
from functools import cached_property, lru_cache
from operator import attrgetter
from typing import Annotated, Any, NamedTuple, get_type_hints

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
        """The Workload's key: early versions of flashinfer-bench gave no uuid."""
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

    @cached_property
    def device(self) -> str:
        """The hardware, by which Traces of an interpreter stand beside those of its processor."""
        return self.hardware.removesuffix(INTERPRETER)


_HINTS = get_type_hints(TraceRecord, include_extras=True)
_UNKNOWN: dict[str, Any] = {
    each.name: each.default_factory() if each.default_factory is not MISSING else None for each in fields(TraceRecord)
} | {each.name: each.default for each in fields(TraceRecord) if each.default is not MISSING}
"""The defaults of a record whose Trace lacks a field."""


def _part(model: type[BaseModel], *, frozen: bool = False, **more: tuple[Any, Any]) -> Any:
    """A Struct of the fields of a part that a record keeps; msgspec takes a third longer for a dataclass.

    `more`: the types and defaults of fields that a record keeps in another form, or not itself.
    """
    kept = [(name, _HINTS[name], _UNKNOWN[name]) for name in model.model_fields if name in _HINTS and name not in more]
    others = [(name, *described) for name, described in more.items()]
    # Of JSON, which has no cycles: the garbage collector need not look into it.
    return msgspec.defstruct(model.__name__, kept + others, frozen=frozen, gc=False, kw_only=True)


_Ceiling = _part(schema.Ceiling)
_Chain = _part(schema.Chain)
_Clocks = _part(schema.Clocks)
_Settings = _part(schema.Settings, frozen=True)
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


class TraceFacts(NamedTuple):
    """The fields by which Traces are chosen; of many Traces few differ."""

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
    settings: Any
    failed: bool
    """Whether there is no latency."""

    @property
    def axes(self) -> dict[str, int]:
        """The variable axes, as a record has them."""
        return dict(self.sizes)


class Origin(NamedTuple):
    """The source of Traces: the file's path, the path that reports name, and its author."""

    path: str
    file: str
    author: str | None


class DecodedTrace(msgspec.Struct, gc=False):
    """A Trace that is not flattened yet."""

    trace: Any
    facts: TraceFacts
    origin: Origin
    line: int
    timestamp: str
    during_mhz: float | None
    """The clock during its trials."""

    def flatten(self) -> TraceRecord:
        """The fields of a Trace that a report needs."""
        evaluation = self.trace.evaluation
        performance = evaluation.performance
        measured = (performance.ceiling, performance.chain) if performance else (None, None)
        values = {
            **_UNKNOWN,
            "definition": self.facts.definition,
            "workload": self.facts.workload,
            "axes": self.trace.workload.axes,
            "scalars": self.trace.workload.scalars,
            "solution": self.facts.solution,
            "hardware": self.facts.hardware,
            **self.origin._asdict(),
            "line": self.line,
            "during_mhz": self.during_mhz,
        }
        parts = (evaluation, evaluation.settings, performance, *measured)
        for (names, get), part in zip(_FLAT, parts, strict=True):
            if part:
                values.update(zip(names, get(part), strict=True))
        values["latency_ms"] = values["latency_ms"] or None  # 0 where nothing was timed
        record = TraceRecord.__new__(TraceRecord)
        record.__dict__ = values  # to pass sixty arguments takes longer than to decode them
        return record


_FLAT = [
    (names, attrgetter(*names))
    for part in (_Evaluation, _Settings, _Performance, _Ceiling, _Chain)
    if (names := [name for name in part.__struct_fields__ if name in _HINTS])
]
"""The names of a record's fields that are in a part, and what gets their values."""


class NotATraceError(ValueError):
    """The message says what is wrong with the JSON."""


_decode_trace: Callable[[bytes | msgspec.Raw], Any] = msgspec.json.Decoder(_Trace).decode
# Thousands of Traces have few different ones, which they share: nobody may change them.
_decode_workload = lru_cache(msgspec.json.Decoder(_Workload).decode)
_decode_environment = lru_cache(msgspec.json.Decoder(_Environment).decode)
_decode_settings = lru_cache(msgspec.json.Decoder(_Settings | None).decode)
_share_facts = lru_cache(1 << 18)(TraceFacts)
_share = lru_cache(1 << 12)(lambda text: text)


def decode(data: bytes | msgspec.Raw, origin: Origin, line: int) -> DecodedTrace | None:
    """Decode a Trace; None for a Workload's. Raises NotATraceError."""
    try:
        return _decode(data, origin, line)
    except msgspec.ValidationError as error:
        raise NotATraceError(str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        strict = _as_strict_json(bytes(data), error)
    try:
        return _decode(strict, origin, line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NotATraceError(str(error)) from None


def record_of(trace: schema.Trace, number: int) -> TraceRecord | None:
    """Flatten a Trace that was measured just now as the `number`th; None for a Workload's."""
    found = decode(trace.model_dump_json().encode(), Origin("measured now", "measured now", None), number)
    return found.flatten() if found else None


def _as_strict_json(data: bytes, error: Exception) -> bytes:
    """Python's json writes NaN and Infinity, which are not JSON: they become null."""
    try:
        return msgspec.json.encode(json.loads(data, parse_constant=lambda _: None))
    except (ValueError, RecursionError):  # also half of a surrogate pair
        raise NotATraceError(f"not JSON: {error}") from None


def _decode(data: bytes | msgspec.Raw, origin: Origin, line: int) -> DecodedTrace | None:
    trace = _decode_trace(data)
    workload = trace.workload = _decode_workload(bytes(trace.workload))  # checked in a Workload's own Trace too
    evaluation = trace.evaluation
    if evaluation is None:
        return None
    environment = evaluation.environment = _decode_environment(bytes(evaluation.environment))
    settings = evaluation.settings = _decode_settings(bytes(evaluation.settings)) or _Settings()
    performance = evaluation.performance
    latency_ms = performance.latency_ms if performance else None
    if latency_ms and latency_ms <= LEAST_LATENCY_MS:
        raise NotATraceError(f"latency_ms is {latency_ms:g}: below a picosecond")
    facts = _share_facts(
        trace.definition,
        workload.name,
        workload.sizes,
        trace.solution or "",
        evaluation.definition_sha256,
        evaluation.solution_sha256,
        environment.device,
        performance.timer if performance else None,
        performance.cold_l2 if performance else None,
        settings,
        not latency_ms,
    )
    # Thousands of Traces say the same: to share it saves a quarter of their memory.
    trace.definition, trace.solution = facts.definition, facts.solution
    evaluation.definition_sha256, evaluation.solution_sha256 = facts.definition_sha256, facts.solution_sha256
    evaluation.status, evaluation.judged_by = _share(evaluation.status), _share(evaluation.judged_by)
    clocks = None
    if performance:
        performance.timer, performance.device_session = facts.timer, _share(performance.device_session)
        clocks = performance.clocks
    return DecodedTrace(trace, facts, origin, line, evaluation.timestamp, clocks.during_mhz if clocks else None)
