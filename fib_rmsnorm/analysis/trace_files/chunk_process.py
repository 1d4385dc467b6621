"""The process that reads chunks of a file: a request a line on stdin, a chunk a line on stdout."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from fib_rmsnorm.analysis.trace_files.chunks import Extent, read_chunk


class ChunkRequest(msgspec.Struct):
    """Read this extent."""

    number: int
    extent: Extent


def main() -> None:
    """Answer until stdin ends. The arguments: the descriptor of the file to read, the path of the rows to write."""
    descriptor, path = int(sys.argv[-2]), Path(sys.argv[-1])
    with path.open("wb") as rows:
        for line in sys.stdin.buffer:
            request = msgspec.json.decode(line, type=ChunkRequest)
            chunk = read_chunk(descriptor, request.number, request.extent, rows)
            rows.flush()
            sys.stdout.buffer.write(msgspec.json.encode(chunk) + b"\n")
            sys.stdout.buffer.flush()
