"""Which files of Traces are asked for, which registries they lie in, and the JSON of each Trace in them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

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


def path_in_registry(file: Path) -> str:
    """The path from the root of the registry around the file; its name alone if there is none."""
    whole = file.resolve()
    root = _dataset_around(whole.parent)
    return str(whole.relative_to(root)) if root else file.name


def author_by_path(path: Path) -> str | None:
    """`traces/<author>/<op_type>/<definition>.jsonl` names the author of its Solutions, unless they are of several."""
    parts = path.parts
    return parts[-3] if len(parts) > 3 and parts[-4] == "traces" and parts[-3] != PUBLISHED else None


def items_of(path: Path, root: Path | None = None) -> Iterator[tuple[int, bytes | msgspec.Raw]]:
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
        yield from ((asked[number], bytes(item)) for number, item in items_of(Path(path)) if number in asked)
