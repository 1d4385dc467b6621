"""Read Traces from anywhere: .json arrays, .jsonl files, registries, datasets of flashinfer-bench."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import msgspec

from fib_rmsnorm.analysis.decoding import NotATraceError, decode
from fib_rmsnorm.analysis.solution_sources import SolutionFacts, read_solutions
from fib_rmsnorm.analysis.trace_record import TraceRecord
from fib_rmsnorm.errors import InputError
from fib_rmsnorm.garbage_collection import collector_off
from fib_rmsnorm.registry.files.locking import locked
from fib_rmsnorm.registry.files.regular_files import (
    MOST_ARRAY,
    MOST_RECORD,
    find_files,
    lines_of,
    open_regular,
    read_at_most,
)
from fib_rmsnorm.registry.layout import PUBLISHED, find_root, is_registry

_SUFFIXES = (".json", ".jsonl")
_START = 1 << 16
"""Bytes that tell an array from lines."""


@dataclass
class TraceSet:
    """The Traces that were asked for, and the Solutions of the registries they lie in."""

    records: list[TraceRecord] = field(default_factory=list)
    solutions: dict[str, SolutionFacts] = field(default_factory=dict)
    roots: list[Path] = field(default_factory=list)
    """The registries, where Definitions can be found."""
    faults: list[str] = field(default_factory=list)
    """A line for each file that could not be read whole."""


def load(*sources: str | Path, root: Path | None = None) -> list[TraceRecord]:
    """Return a record for each evaluation in trace files or folders (default: the registry found from here).

    What cannot be read is skipped, with one warning per file that says what and where.
    Raises InputError for a source that does not exist.
    """
    return load_traces([Path(source) for source in sources], root, warn=_warn).records


def _warn(message: str) -> None:
    warnings.warn(message, stacklevel=4)


def load_traces(sources: list[Path], root: Path | None = None, *, warn: Callable[[str], None]) -> TraceSet:
    """Like `load`, with what the registries around the files say; `warn` gets a line for each bad file."""
    found = TraceSet()

    def note(fault: str) -> None:
        found.faults.append(fault)
        warn(fault)

    asked = sources or [_near(find_root(root))]
    found.roots = _roots_of([file for source in asked for file in _trace_files(source)], sources, root)
    with locked(reading=found.roots), collector_off():  # records hold no cycles
        for dataset in found.roots:
            for name, solution in read_solutions(dataset).items():
                found.solutions.setdefault(name, solution)
        for file in (file for source in asked for file in _trace_files(source)):
            found.records += _read_file(file, note)
    for record in found.records:
        if facts := found.solutions.get(record.solution):
            record.author, record.language = facts.author, facts.language
    return found


def _near(folder: Path) -> Path:
    """The folder as seen from the working folder, if it lies within: shorter to read."""
    here = Path.cwd()
    return folder.relative_to(here) if folder.is_relative_to(here) else folder


class TraceFile(NamedTuple):
    """A file to read; in a dataset, it must not lead out of the dataset's root."""

    path: Path
    root: Path | None = None


def _trace_files(source: Path) -> list[TraceFile]:
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


def _roots_of(files: Iterable[TraceFile], sources: list[Path], root: Path | None) -> list[Path]:
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


def _path_in_registry(file: Path) -> str:
    """The path from the root of the registry around the file; its name alone if there is none."""
    whole = file.resolve()
    root = _dataset_around(whole.parent)
    return str(whole.relative_to(root)) if root else file.name


def _read_file(file: TraceFile, warn: Callable[[str], None]) -> list[TraceRecord]:
    """The records of a file. One warning covers all that could not be read in it."""
    records: list[TraceRecord] = []
    faults: list[str] = []
    path = file.path
    author, shown = _author_by_path(path), _path_in_registry(path)
    try:
        for number, item in _items(path, file.root):
            try:
                record = decode(item, str(path), number, author)
            except NotATraceError as error:
                faults.append(f"{path}:{number}: {error}")
                continue
            if record is not None:
                record.file = shown
                records.append(record)
    except InputError as error:
        faults.append(str(error))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        faults.append(f"{path}: not a JSON array: {error}")
    if faults:
        more = f"; and {len(faults) - 1} more in this file" if len(faults) > 1 else ""
        warn(f"{faults[0]} (skipped{more})")
    return records


def _items(path: Path, root: Path | None = None) -> Iterator[tuple[int, bytes | msgspec.Raw]]:
    """The JSON of each Trace in a file, whatever its name: an array, one object, or one a line."""
    with open_regular(path, root) as file:
        start = file.readline(_START).lstrip(b"\xef\xbb\xbf \t\r\n")
        file.seek(0)
        if start.startswith(b"[") or (not start.strip() and path.suffix == ".json"):
            data = read_at_most(file, MOST_ARRAY, path).strip()
            yield from enumerate(msgspec.json.decode(data, type=list[msgspec.Raw]), start=1)
        elif start.strip() == b"{":
            yield 1, read_at_most(file, MOST_RECORD, path)
        else:
            yield from ((number, line) for number, line in lines_of(file, path) if line.strip())


def read_items(path: Path, numbers: Collection[int]) -> Iterator[tuple[int, bytes]]:
    """The JSON that the records of these lines (or items) were read from, in one pass over the file."""
    yield from ((number, bytes(item)) for number, item in _items(path) if number in numbers)


def _author_by_path(path: Path) -> str | None:
    """`traces/<author>/<op_type>/<definition>.jsonl` names the author of its Solutions, unless they are of several."""
    parts = path.parts
    return parts[-3] if len(parts) > 3 and parts[-4] == "traces" and parts[-3] != PUBLISHED else None
