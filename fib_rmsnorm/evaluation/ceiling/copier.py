"""What a copier is, how one is built, the one in C++, and the one of torch that needs no compiler."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from fib_rmsnorm.building.native import build_native, load_native
from fib_rmsnorm.evaluation.ceiling.ceiling_messages import StreamTraffic, copy_solution
from fib_rmsnorm.evaluation.timing.timer import Call

# Fewer bytes are not worth the start of a thread, or a store that bypasses the caches.
_MIN_BYTES_PER_THREAD = 8 << 10
_MIN_BYTES_STREAMED = 1 << 20
_OPENMP = 0  # as a number of threads
# The names of stores by how many pages they write past the caches at a time.
_PAGES = {0: "", 1: ", streaming", 2: ", streaming two pages at a time"}


@dataclass(frozen=True)
class CopyVariant:
    """One variant of a copy with a given traffic."""

    name: str
    """The name that is recorded: `cuda 256x4`, `cpp 2 threads`."""
    bind: Callable[[torch.Tensor, torch.Tensor, int], Call]
    """Makes the call for a source and a destination, which may be larger than the copy, and bytes between streams."""
    cores: tuple[int, ...] = ()
    """The cores that the copy uses on a CPU."""


class Copier:
    """Moves a given traffic, in several variants of which the fastest is chosen."""

    cores: Sequence[int] = ()
    """The cores to which its threads are pinned, the caller's first; empty on a GPU."""
    empty: Call
    """A call that moves nothing."""

    def variants(self, traffic: StreamTraffic) -> list[CopyVariant]:
        """The variants worth trying for this traffic."""
        raise NotImplementedError


class TorchCopy(Copier):
    """For machines where nothing can be compiled. Surplus reads are folded, surplus writes filled."""

    def __init__(self, device: str) -> None:
        self._device = device

    def empty(self) -> None:
        """Launch almost nothing: torch has no empty kernel."""
        if self._device != "cpu":
            torch.cuda._sleep(0)  # type: ignore[no-untyped-call]

    def variants(self, traffic: StreamTraffic) -> list[CopyVariant]:
        """The only variant, in one stream."""

        def bind(source: torch.Tensor, destination: torch.Tensor, _: int) -> Call:
            both = min(traffic.bytes_read, traffic.bytes_written)
            read, written = source[: traffic.bytes_read], destination[: traffic.bytes_written]

            def call() -> None:
                if both:
                    written[:both].copy_(read[:both])
                if len(read) > both:
                    read[both:].amax()
                if len(written) > both:
                    written[both:].fill_(1)

            return call

        return [CopyVariant("torch", bind)]


def load_copy(file: str, cache: Path) -> Callable[[str], Callable[..., Any]]:
    """Build a copy and return a function that finds the copy's functions by name. Raises BuildError."""
    solution = copy_solution(file)
    library = build_native(solution, cache)
    return lambda symbol: load_native(library, symbol)


class CppCopy(Copier):
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
            streams = (*traffic.in_units(1, spread), traffic.reads, traffic.writes)
            return partial(self._copy, source.data_ptr(), destination.data_ptr(), *streams, threads, pages)

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
