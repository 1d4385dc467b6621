"""The copy in C++, with one thread on each core."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import torch

from fib_rmsnorm.evaluation.ceiling.copier import CopyVariant
from fib_rmsnorm.evaluation.ceiling.copy_sources import load_copy
from fib_rmsnorm.evaluation.timing.timer import Call

# Fewer bytes are not worth the start of a thread, or a store that bypasses the caches.
_MIN_BYTES_PER_THREAD = 8 << 10
_MIN_BYTES_STREAMED = 1 << 20


# The names of stores by how many pages they write past the caches at a time.
_STREAMS = {0: "", 1: ", streaming", 2: ", streaming two pages at a time"}


class CppCopy:
    """memcpy, or stores that bypass the caches, with one thread up to one on each core."""

    def __init__(self, cache: Path) -> None:
        find = load_copy(("copy.cpp",), cache)
        self.cores = _cores_to_use()
        self.empty: Call = find("empty")
        self._copy = find("copy")
        self._copy_by_openmp = find("copy_by_openmp")
        self._openmp_threads: int = find("start_openmp")()
        self._can_stream: bool = find("can_stream")()
        find("start_helpers")(self.cores[1:])

    def variants(self, bytes_read: int, bytes_written: int) -> list[CopyVariant]:
        """Pinned threads (powers of two, and all) and torch's OpenMP threads, with plain and with streaming stores."""
        moved = bytes_read + bytes_written
        most = max(1, min(len(self.cores), moved // _MIN_BYTES_PER_THREAD))
        counts = [*(2**i for i in range(most.bit_length()) if 2**i < most), most]
        streams = _STREAMS if self._can_stream and bytes_written >= _MIN_BYTES_STREAMED else [0]
        amounts = (bytes_read, bytes_written)
        variants = [self._pinned_variant(amounts, threads, pages) for threads in reversed(counts) for pages in streams]
        if 1 < self._openmp_threads <= most:
            variants += [self._openmp_variant(amounts, pages) for pages in streams]
        return variants

    def _pinned_variant(self, amounts: tuple[int, int], threads: int, streams: int) -> CopyVariant:
        def bind(source: torch.Tensor, destination: torch.Tensor) -> Call:
            return partial(self._copy, source.data_ptr(), destination.data_ptr(), *amounts, threads, streams)

        name = f"cpp {threads} thread{'s' * (threads > 1)}{_STREAMS[streams]}"
        return CopyVariant(name, bind, tuple(self.cores[:threads]))

    def _openmp_variant(self, amounts: tuple[int, int], streams: int) -> CopyVariant:
        def bind(source: torch.Tensor, destination: torch.Tensor) -> Call:
            return partial(self._copy_by_openmp, source.data_ptr(), destination.data_ptr(), *amounts, streams)

        return CopyVariant(f"cpp {self._openmp_threads} OpenMP threads{_STREAMS[streams]}", bind)


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
