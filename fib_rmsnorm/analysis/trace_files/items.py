"""The JSON of each Trace in a file: an array, one object, or one a line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import BinaryIO

import msgspec

from fib_rmsnorm.analysis.trace_record import TraceRecord
from fib_rmsnorm.errors import InputError
from fib_rmsnorm.registry.files.regular_files import MOST_ARRAY, MOST_RECORD, lines_of, open_regular, read_at_most

_START = 1 << 16
"""Bytes that tell an array from lines."""


class FileForm(Enum):
    """How Traces lie in a file."""

    ARRAY = "an array"
    OBJECT = "one object"
    LINES = "one a line"


def form_of(file: BinaryIO, path: Path) -> FileForm:
    """By how the file starts, whatever its name."""
    start = file.readline(_START).lstrip(b"\xef\xbb\xbf \t\r\n")
    file.seek(0)
    if start.startswith(b"[") or (not start.strip() and path.suffix == ".json"):
        return FileForm.ARRAY
    return FileForm.OBJECT if start.strip() == b"{" else FileForm.LINES


def items_of(path: Path, root: Path | None = None) -> Iterator[tuple[int, bytes | msgspec.Raw]]:
    """The JSON of each Trace in a file: an array, one object, or one a line.

    Raises InputError as `open_regular` does, for what is too large, and for an empty file that should be an array.
    """
    with open_regular(path, root) as file:
        match form_of(file, path):
            case FileForm.ARRAY:
                data = read_at_most(file, MOST_ARRAY, path).strip()
                if not data:
                    raise InputError(f"{path}: is empty")
                yield from enumerate(msgspec.json.decode(data, type=list[msgspec.Raw]), start=1)
            case FileForm.OBJECT:
                yield 1, read_at_most(file, MOST_RECORD, path)
            case FileForm.LINES:
                yield from ((number, line) for number, line in lines_of(file, path) if line.strip())


def read_items(path: Path, records: Mapping[int, TraceRecord]) -> Iterator[tuple[int, bytes]]:
    """The JSON that the records of these lines (or items) were read from, in one pass over the file."""
    places = {number: record.offset for number, record in records.items()}
    if None in places.values():
        yield from ((number, bytes(item)) for number, item in items_of(path) if number in places)
        return
    with open_regular(path) as file:
        for number, place in sorted(places.items()):
            file.seek(place or 0)
            yield number, file.readline(MOST_RECORD)
