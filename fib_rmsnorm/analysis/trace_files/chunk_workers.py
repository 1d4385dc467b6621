"""Read the chunks of a file in as many processes as there are cores."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec

from fib_rmsnorm.analysis.trace_files.chunk_process import ChunkRequest
from fib_rmsnorm.analysis.trace_files.chunks import Chunk, Extent, read_chunk

_START = """\
import os, sys
sys.path[:] = sys.argv.pop(1).split(os.pathsep)
from fib_rmsnorm.analysis.trace_files.chunk_process import main
main()
"""
_MOST = 8
"""Beyond that many processes the disk is what is waited for."""


def read_chunks(descriptor: int, first: int, extents: Sequence[Extent], folder: Path) -> tuple[list[Chunk], list[Path]]:
    """Read extents, numbered from `first`; return their chunks, and the files in `folder` that their rows are in.

    Raises OSError if a process ends before it has answered, or a file cannot be written.
    """
    if not extents:
        return [], []
    workers = min(len(os.sched_getaffinity(0)), len(extents), _MOST)
    files = [folder / f"rows-{number}.jsonl" for number in range(workers)]
    if workers == 1:  # faster here than in a process that must start
        with files[0].open("wb") as rows:
            return [read_chunk(descriptor, first + n, extent, rows) for n, extent in enumerate(extents)], files
    # A deque, not a generator: two threads take from it.
    waiting = deque(ChunkRequest(first + number, extent) for number, extent in enumerate(extents))
    found: dict[int, Chunk] = {}
    # On Ctrl-C the processes end first, and then the threads that wait for them.
    with ThreadPoolExecutor(workers) as threads, ExitStack() as stack:
        processes = [stack.enter_context(_started(descriptor, file)) for file in files]
        for _ in threads.map(lambda process: _serve(process, waiting, found), processes):
            pass  # raises what a thread raised
    return [found[number] for number in sorted(found)], files


@contextmanager
def _started(descriptor: int, file: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-c", _START, os.pathsep.join(sys.path), str(descriptor), str(file)]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, pass_fds=(descriptor,)
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def _serve(process: subprocess.Popen[bytes], waiting: deque[ChunkRequest], found: dict[int, Chunk]) -> None:
    """Hand out what waits, one at a time."""
    assert process.stdin is not None and process.stdout is not None
    while True:
        try:
            request = waiting.popleft()
        except IndexError:
            return
        process.stdin.write(msgspec.json.encode(request) + b"\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        if not answer:
            raise ChildProcessError("a process that reads Traces ended")
        found[request.number] = msgspec.json.decode(answer, type=Chunk)
