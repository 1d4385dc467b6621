"""The copy in C++, with one thread on each core."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import torch

from fib_rmsnorm.evaluation.ceiling.ceiling_messages import StreamTraffic
from fib_rmsnorm.evaluation.ceiling.copier import CopyVariant, load_copy
from fib_rmsnorm.evaluation.timing.timer import Call

# Fewer bytes are not worth the start of a thread, or a store that bypasses the caches.
_MIN_BYTES_PER_THREAD = 8 << 10
_MIN_BYTES_STREAMED = 1 << 20


_OPENMP = 0  # as a number of threads

# The names of stores by how many pages they write past the caches at a time.
_PAGES = {0: "", 1: ", streaming", 2: ", streaming two pages at a time"}


class CppCopy:
    """memcpy, or stores that bypass the caches, with one thread up to one on each core."""

    def __init__(self, _: str, cache: Path) -> None:
        find = load_copy("copy.cpp", cache)
        self.cores = _cores_to_use()
        self.empty: Call = find("empty")
        self._copy = find("copy")
        self._openmp_threads: int = find("start_openmp")()
        self._can_stream: bool = find("can_stream")()
        find("start_helpers")(self.cores[1:])

    def variants(self, traffic: StreamTraffic) -> list[CopyVariant]:
        """Pinned threads (powers of two, and all) and torch's OpenMP threads, with plain and with streaming stores.

        Each for the traffic's streams, and for one stream of each direction.
        """
        moved = traffic.bytes_read + traffic.bytes_written
        most = max(1, min(len(self.cores), moved // _MIN_BYTES_PER_THREAD))
        counts = [*(2**i for i in range(most.bit_length()) if 2**i < most), most]
        counts = [*reversed(counts), *([_OPENMP] if 1 < self._openmp_threads <= most else [])]
        pages = _PAGES if self._can_stream and traffic.bytes_written >= _MIN_BYTES_STREAMED else [0]
        return [
            self._variant(streams, threads, each)
            for streams in dict.fromkeys((traffic, traffic.flat))
            for threads in counts
            for each in pages
        ]

    def _variant(self, traffic: StreamTraffic, threads: int, pages: int) -> CopyVariant:
        def bind(source: torch.Tensor, destination: torch.Tensor, spread: int) -> Call:
            return partial(
                self._copy,
                source.data_ptr(),
                destination.data_ptr(),
                traffic.stream_bytes + spread,
                traffic.stream_bytes,
                traffic.last_read,
                traffic.last_written,
                traffic.reads,
                traffic.writes,
                threads,
                pages,
            )

        who = f"{threads} thread{'s' * (threads > 1)}" if threads else f"{self._openmp_threads} OpenMP threads"
        return CopyVariant(f"cpp {who}{_PAGES[pages]}{traffic.suffix}", bind, tuple(self.cores[:threads]))


def _cores_to_use() -> list[int]:
    """The cores that this process may use, with the second hardware threads of physical cores last."""
    cores = sorted(os.sched_getaffinity(0))
    firsts: dict[str, int] = {}
    for core in cores:
        firsts.setdefault(_physical_core(core), core)
    return sorted(cores, key=lambda core: (core not in firsts.values(), core))


def _physical_core(core: int) -> str:
    try:
        return Path(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list").read_text(encoding="ascii")
    except OSError:
        return str(core)
