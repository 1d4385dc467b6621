"""Read Traces: decode what the files that are asked for hold to flat records.

The decoder skips what a TraceRecord does not keep. The schema's own models take 3 times as long.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from sys import intern
from typing import Annotated, Any

import msgspec
from msgspec.structs import asdict

from fib_rmsnorm import schema
from fib_rmsnorm.analysis.trace_record import LEAST_LATENCY_MS, PARTS, NestedPerformance, TraceRecord, TraceSettings
from fib_rmsnorm.errors import InputError
from fib_rmsnorm.languages import INTERPRETER
from fib_rmsnorm.notices import summarize_faults
from fib_rmsnorm.registry.files.locking import locked
from fib_rmsnorm.registry.files.regular_files import read_records
from fib_rmsnorm.registry.layout import PUBLISHED, find_registry_around, find_root, find_roots, list_trace_files


def read_files(sources: list[Path], root: Path | None) -> tuple[list[Path], list[TraceRecord], list[str]]:
    """The registries of files and folders (default: the one at hand), their Traces, and a line for each fault."""
    here, asked = Path.cwd(), sources
    if not asked:
        found = find_root(root)
        asked = [found.relative_to(here) if found.is_relative_to(here) else found]  # the shorter to read
    roots = find_roots([file for source in asked for file in list_trace_files(source)], sources, root)
    traces, told = list[TraceRecord](), list[str]()
    with locked(reading=roots):
        for path, dataset in (file for source in asked for file in list_trace_files(source)):
            faults: list[str] = []
            traces += _decode_file(path, dataset, faults)
            if faults:
                told.append(summarize_faults(faults))
    return roots, traces, told


def _decode_file(path: Path, root: Path | None, faults: list[str]) -> Iterator[TraceRecord]:
    """The Traces of a file; `faults` gets what could not be read in it."""
    origin = _find_origin(path)
    try:
        for number, item in read_records(path, root):
            try:
                trace = decode(item, number, origin)
            except NotATraceError as error:
                faults.append(f"{path}:{number}: {error}")
                continue
            if trace is not None:
                yield trace
    except InputError as error:
        faults.append(str(error))


def _find_origin(path: Path) -> dict[str, str | None]:
    """The file of Traces, as records have it, and the author of its Solutions.

    `traces/<author>/<op_type>/<definition>.jsonl` names the author of its Solutions, unless they are of several.
    """
    whole, parts = path.resolve(), path.parts
    root = find_registry_around(whole.parent)
    author = parts[-3] if len(parts) > 3 and parts[-4] == "traces" and parts[-3] != PUBLISHED else None
    return {"path": str(path), "file": str(whole.relative_to(root)) if root else path.name, "author": author}


def read_items(records: Iterable[TraceRecord]) -> Iterator[tuple[TraceRecord, bytes]]:
    """The JSON that each of the records was read from, in one pass over each file."""
    by_path = defaultdict[str, dict[int, TraceRecord]](dict)
    for record in records:
        by_path[record.path][record.line] = record
    for path, asked in sorted(by_path.items()):
        yield from ((asked[number], bytes(item)) for number, item in read_records(Path(path)) if number in asked)


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


class _Environment(msgspec.Struct, frozen=True, gc=False):
    hardware: str = ""


class _Evaluation(msgspec.Struct, gc=False):  # of JSON, which has no cycles
    status: str
    environment: _Environment = _Environment()
    timestamp: str = ""
    log: str = ""
    performance: NestedPerformance | None = None  # type: ignore[valid-type]
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


_EVALUATED = ("status", "log", "definition_sha256", "solution_sha256", "judged_by")

_decode_trace: Callable[[bytes | msgspec.Raw], Any] = msgspec.json.Decoder(_Trace).decode
# Thousands of Traces have few different ones, which they share: nobody may change them.
_decode_workload = lru_cache(msgspec.json.Decoder(_Workload).decode)
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
    return decode(strict, line, origin)


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
    values: dict[str, Any] = {**origin}
    if evaluation.performance:
        values |= asdict(evaluation.performance)
    for name in PARTS:
        if part := values.pop(name, None):
            values |= asdict(part)
    values |= {name: getattr(evaluation, name) for name in _EVALUATED}
    for name in (*_EVALUATED, "timer", "device_session", "note"):  # many Traces have few different ones
        if text := values.get(name):
            values[name] = intern(text)
    record = TraceRecord(
        **values,
        definition=intern(trace.definition),
        workload=workload.uuid,
        axes=workload.axes,
        scalars=workload.scalars,
        solution=intern(trace.solution or ""),
        settings=_decode_settings(bytes(evaluation.settings)) or TraceSettings(),
        hardware=intern(evaluation.environment.hardware.removesuffix(INTERPRETER)),
        timestamp=evaluation.timestamp,
        line=line,
    )
    record.latency_ms = record.latency_ms or None  # 0 where nothing was timed
    if record.latency_ms and record.latency_ms <= LEAST_LATENCY_MS:
        raise NotATraceError(f"latency_ms is {record.latency_ms:g}: below a picosecond")
    return record
