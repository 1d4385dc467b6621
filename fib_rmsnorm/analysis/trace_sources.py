"""Which files of Traces are asked for, the Traces in them, and what the registries around them say of these."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from fib_rmsnorm.analysis.decoding import DecodedTrace, NotATraceError, Origin, TraceFacts, decode
from fib_rmsnorm.analysis.trace_record import TraceRecord
from fib_rmsnorm.errors import InputError
from fib_rmsnorm.registry.files.regular_files import (
    MOST_ARRAY,
    MOST_RECORD,
    find_files,
    lines_of,
    open_regular,
    read_at_most,
)
from fib_rmsnorm.registry.layout import PUBLISHED, find_root, is_registry

if TYPE_CHECKING:
    from fib_rmsnorm.schema import Definition, Solution

_SUFFIXES = (".json", ".jsonl")
_START = 1 << 16
"""Bytes that tell an array from lines."""


class TraceFile(NamedTuple):
    """A file to read; in a dataset, it must not lead out of the dataset's root."""

    path: Path
    root: Path | None = None


def list_trace_files(source: Path) -> list[TraceFile]:
    """The files to read: `source`, or those in the folder; a dataset's are under `traces/`."""
    if source.is_file():
        return [TraceFile(source)]
    if not source.is_dir():
        if source.exists():
            raise InputError(f"{source}: is not a regular file; write what it holds to a file first")
        raise InputError(f"no such file or folder: {source}")
    is_dataset = (source / "traces").is_dir()
    if not is_dataset and (source / "definitions").is_dir():
        return []  # a dataset without Traces; its other files hold none
    found = find_files(source / "traces" if is_dataset else source, "*.json*")
    root = source if is_dataset else None
    # What is a folder here is a link to one: reading it reports the link.
    return [TraceFile(path, root) for path in found if (is_dataset if path.is_dir() else path.suffix in _SUFFIXES)]


def find_roots(files: Iterable[TraceFile], sources: list[Path], root: Path | None) -> list[Path]:
    """The datasets around the files and folders, else the registry found from here, if any."""
    starts = {file.path.resolve().parent for file in files} | {each.resolve() for each in sources if each.is_dir()}
    roots = dict.fromkeys(filter(None, map(_dataset_around, sorted(starts))))
    if not roots or root is not None:
        try:
            roots.setdefault(find_root(root))
        except InputError:
            if root is not None:
                raise
    return list(roots)


def _dataset_around(folder: Path) -> Path | None:
    return next((each for each in (folder, *folder.parents) if is_registry(each)), None)


def decode_file(file: TraceFile, faults: list[str]) -> Iterator[DecodedTrace]:
    """The Traces of a file; `faults` gets what could not be read in it."""
    path = file.path
    origin = _find_origin(path)
    try:
        for number, item in _items_of(path, file.root):
            try:
                trace = decode(item, origin, number)
            except NotATraceError as error:
                faults.append(f"{path}:{number}: {error}")
                continue
            if trace is not None:
                yield trace
    except InputError as error:
        faults.append(str(error))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        faults.append(f"{path}: not a JSON array: {error}")


def _find_origin(path: Path) -> Origin:
    """Where the Traces of a file are from.

    `traces/<author>/<op_type>/<definition>.jsonl` names the author of its Solutions, unless they are of several.
    """
    whole, parts = path.resolve(), path.parts
    root = _dataset_around(whole.parent)
    author = parts[-3] if len(parts) > 3 and parts[-4] == "traces" and parts[-3] != PUBLISHED else None
    return Origin(str(path), str(whole.relative_to(root)) if root else path.name, author)


def _items_of(path: Path, root: Path | None = None) -> Iterator[tuple[int, bytes | msgspec.Raw]]:
    """The JSON of each Trace in a file: an array, one object, or one a line, as its start tells, whatever its name.

    Raises InputError as `open_regular` does, for what is too large, and for an empty file that should be an array.
    """
    with open_regular(path, root) as file:
        start = file.readline(_START).lstrip(b"\xef\xbb\xbf \t\r\n")
        file.seek(0)
        if start.startswith(b"[") or (not start.strip() and path.suffix == ".json"):
            data = read_at_most(file, MOST_ARRAY, path).strip()
            if not data:
                raise InputError(f"{path}: is empty")
            yield from enumerate(msgspec.json.decode(data, type=list[msgspec.Raw]), start=1)
        elif start.strip() == b"{":
            yield 1, read_at_most(file, MOST_RECORD, path)
        else:
            yield from ((number, line) for number, line in lines_of(file, path) if not line.isspace())


def read_items(records: Iterable[TraceRecord]) -> Iterator[tuple[TraceRecord, bytes]]:
    """The JSON that each of the records was read from, in one pass over each file."""
    by_path = defaultdict[str, dict[int, TraceRecord]](dict)
    for record in records:
        by_path[record.path][record.line] = record
    for path, asked in sorted(by_path.items()):
        yield from ((asked[number], bytes(item)) for number, item in _items_of(Path(path)) if number in asked)


def read_definitions(names: Iterable[str], roots: Iterable[Path]) -> dict[str, Definition]:
    """The Definitions of these names that the registries hold; one that cannot be read counts as missing."""
    from fib_rmsnorm.registry.store import read_json
    from fib_rmsnorm.schema import Definition

    wanted = set(names)
    found: dict[str, Definition] = {}
    for root in roots:
        for path in find_files(root / "definitions", "*.json"):
            if path.stem in wanted - found.keys():
                with suppress(InputError):
                    definition = read_json(path, Definition, root)
                    if definition.name == path.stem:  # `validate` reports others
                        found[definition.name] = definition
    return found


def find_other_versions(traces: Iterable[DecodedTrace], roots: Iterable[Path]) -> dict[tuple[str, str], int]:
    """The versions (name and digest) of Definitions to leave out, with the number of their Traces: one of each stays.

    That is the registries' version; of a Definition that no registry has, the newest.
    """
    counts = Counter[tuple[str, str]]()
    newest: dict[str, tuple[str, str]] = {}
    for trace in traces:
        name, sha256 = trace.facts.definition, trace.facts.definition_sha256
        if sha256:
            counts[name, sha256] += 1
            newest[name] = max(newest.get(name, ("", "")), (trace.timestamp, sha256))
    kept = {name: sha256 for name, (_, sha256) in newest.items()}
    if kept:
        from fib_rmsnorm.schema import digest

        kept |= {name: digest(definition) for name, definition in read_definitions(kept, roots).items()}
    return {version: number for version, number in counts.items() if version[1] != kept[version[0]]}


def read_todays(roots: Iterable[Path]) -> dict[str, Solution]:
    """The Solutions of registries as their sources are now, by name; of two, that of the first registry.

    Any dataset may lie there: one that cannot be read has none, and `validate` says why.
    """
    from fib_rmsnorm.registry import Registry
    from fib_rmsnorm.registry.sources.packing import read_current

    found: dict[str, Solution] = {}
    for root in roots:
        with suppress(InputError):
            found = {**read_current(Registry(root)).by_name, **found}
    return found


def is_changed(record: TraceRecord | TraceFacts, digests: Mapping[str, str]) -> bool:
    """Whether its Solution is another today, where both are known: flashinfer-bench records no digest."""
    return record.solution_sha256 not in (None, digests.get(record.solution, record.solution_sha256))


def find_changed(kinds: Iterable[TraceFacts], digests: Mapping[str, str]) -> dict[str, list[str]]:
    """By device, the Solutions of which no Trace there is of today's version."""
    outdated: dict[tuple[str, str], bool] = {}
    for kind in kinds:
        key = kind.hardware, kind.solution
        outdated[key] = outdated.get(key, True) and is_changed(kind, digests)
    found = defaultdict[str, list[str]](list)
    for hardware, solution in sorted(key for key, is_outdated in outdated.items() if is_outdated):
        found[hardware].append(solution)
    return found


def count_bytes(records: Iterable[TraceRecord], roots: Iterable[Path]) -> None:
    """Fill in the bytes moved and the bandwidth of Traces that lack them, if their Definition was found."""
    lacking = [record for record in records if record.latency_ms and record.bytes_moved is None and record.axes]
    if not lacking:
        return
    from fib_rmsnorm.registry.workload_generation import bytes_moved
    from fib_rmsnorm.schema import Workload

    definitions = read_definitions({record.definition for record in lacking}, roots)
    for record in lacking:
        definition = definitions.get(record.definition)
        if definition is not None and record.latency_ms and set(definition.var_axes) <= record.axes.keys():
            record.bytes_moved = bytes_moved(definition, Workload(axes=record.axes, inputs={}, uuid="unknown"))
            record.bandwidth_gb_per_s = record.bytes_moved / record.latency_ms / 1e6
