"""Whole lines of a file of Traces: where each chunk of them lies, and what its lines hold."""

from __future__ import annotations

import os
from io import BytesIO
from typing import BinaryIO

import msgspec
from blake3 import blake3

from fib_rmsnorm.analysis.decoding import NotATraceError, TraceFacts, decode_facts
from fib_rmsnorm.registry.files.regular_files import MOST_RECORD

CHUNK_BYTES = 16 << 20
"""What a process reads at once, and what is decoded again when a file has grown."""
_STEP = 1 << 16


class Extent(msgspec.Struct, frozen=True):
    """Bytes of a file, from the start of a line to the end of one."""

    start: int
    end: int


class Chunk(msgspec.Struct, frozen=True):
    """What was read of an extent."""

    extent: Extent
    digest: str
    """That of its bytes."""
    lines: int
    faults: int = 0
    """How many lines are neither a Trace nor a Workload."""
    first_fault: tuple[int, str] | None = None
    """The first of them, from 1 in this chunk, and what is wrong with it."""


def cut(descriptor: int, start: int, size: int) -> list[Extent] | None:
    """The whole lines between `start`, where a line starts, and `size`, as extents; a torn last line is left out.

    None if a line may be too long for a record.
    """
    found: list[Extent] = []
    while start < size:
        inside = min(start + CHUNK_BYTES, size) - 1
        end = _end_of_line(descriptor, inside, min(inside + MOST_RECORD, size))
        if end is None:  # the last lines: all but a torn one
            if size - inside > MOST_RECORD:
                return None
            end = start + _read(descriptor, start, size).rfind(b"\n") + 1
            if size - end > MOST_RECORD:
                return None
        if end - start > MOST_RECORD:
            return None
        if end == start:
            break
        found.append(Extent(start, end))
        start = end
    return found


def _end_of_line(descriptor: int, at: int, limit: int) -> int | None:
    """Where the line with the byte `at` ends; None if it does not before `limit`."""
    while at < limit and (data := os.pread(descriptor, min(_STEP, limit - at), at)):
        if (index := data.find(b"\n")) >= 0:
            return at + index + 1
        at += len(data)
    return None


def read_extent(descriptor: int, extent: Extent) -> bytes:
    """The bytes of an extent; fewer if the file has become shorter."""
    return _read(descriptor, extent.start, extent.end)


def _read(descriptor: int, start: int, end: int) -> bytes:
    parts: list[bytes] = []
    while start < end and (data := os.pread(descriptor, end - start, start)):
        parts.append(data)
        start += len(data)
    return b"".join(parts)


def digest_of(data: bytes) -> str:
    """The BLAKE3 digest of a chunk's bytes: SHA-256 takes three times as long."""
    return blake3(data).hexdigest()


def read_chunk(descriptor: int, number: int, extent: Extent, rows: BinaryIO) -> Chunk:
    """Decode the lines of an extent, and write the facts of each Trace as a line of JSON."""
    data = read_extent(descriptor, extent)
    found: list[TraceFacts] = []
    lines, faults, first_fault = 0, 0, None
    place = extent.start
    for lines, line in enumerate(BytesIO(data), start=1):
        try:
            facts = None if line.isspace() else decode_facts(line)
        except NotATraceError as error:
            faults += 1
            first_fault = first_fault or (lines, str(error))
            facts = None
        if facts is not None:
            facts.chunk, facts.line, facts.place, facts.length = number, lines, place, len(line)
            found.append(facts)
        place += len(line)
    rows.write(msgspec.json.Encoder().encode_lines(found))
    return Chunk(extent, digest_of(data), lines, faults, first_fault)
