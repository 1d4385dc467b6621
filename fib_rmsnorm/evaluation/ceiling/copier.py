"""The interface of a copier, its build, and the copiers in C++ and in CUDA C++."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from fib_rmsnorm.building.native import build_native, load_native
from fib_rmsnorm.evaluation.ceiling.ceiling_messages import MAX_LOADS, StreamTraffic, copy_solution
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


SOURCE = "copy.cu"
_VECTOR_BYTES = 16
_RESIDENT_THREADS = 2048  # per multiprocessor; some have 1536, which makes little difference here
_WARP = 32
_INSTRUCTIONS = ("", " streaming", " grouped")  # in the order of the source's enumeration


@dataclass(frozen=True)
class _Shape:
    """A launch shape, and the kind of instructions."""

    threads: int
    """Threads per block."""
    vecs: int
    """Vectors of 16 bytes that each thread has in flight, of each stream."""
    blocks_per_multiprocessor: int = 0
    """Blocks per multiprocessor, which loop over the bytes in strides of the grid; 0 for a grid that covers them."""
    instructions: int = 0

    def name(self, traffic: StreamTraffic) -> str:
        loop = f" looping, {self.blocks_per_multiprocessor} per SM" if self.blocks_per_multiprocessor else ""
        return f"cuda {self.threads}x{self.vecs}{_INSTRUCTIONS[self.instructions]}{loop}{traffic.suffix}"

    def blocks(self, vectors: int, multiprocessors: int) -> int:
        covering = -(-vectors // (self.threads * self.vecs))
        most = self.blocks_per_multiprocessor * multiprocessors or covering
        return max(1, min(covering, most))

    def is_worth_trying(self, vectors: int, reads: int, multiprocessors: int) -> bool:
        """Whether the shape suits the size: it loops at least twice, and leaves no multiprocessor needlessly idle."""
        threads = vectors / self.vecs
        if self.vecs * reads > MAX_LOADS:
            return False
        if self.instructions and vectors < _WARP**2 * multiprocessors:
            return False  # they matter where the memory is busy throughout
        if self.blocks_per_multiprocessor:
            resident = self.blocks_per_multiprocessor * self.threads * multiprocessors
            return threads > 2 * resident
        if self.vecs > 1 and threads < 2 * _WARP * multiprocessors:
            return False
        return threads <= 64 * _RESIDENT_THREADS * multiprocessors


_LOOPS = [(256, 2, 8), (256, 4, 8), (512, 2, 4), (512, 4, 4), (512, 8, 2), (1024, 4, 1), (1024, 8, 1)]
_SHAPES = [
    _Shape(32, 1),
    *(
        _Shape(threads, vecs, instructions=instructions)
        for instructions in range(len(_INSTRUCTIONS))
        for vecs in (1, 2, 4, 8)
        for threads in (64, 128, 256, 512, 1024)
    ),
    *(_Shape(*loop, instructions) for instructions in range(len(_INSTRUCTIONS)) for loop in _LOOPS),
]


class CudaCopy(Copier):
    """16-byte vectors through registers, in many launch shapes."""

    def __init__(self, device: str, cache: Path) -> None:
        find = load_copy(SOURCE, cache)
        self.empty: Call = find("empty")
        self._copy = find("copy")
        self._multiprocessors: int = torch.cuda.get_device_properties(device).multi_processor_count

    def variants(self, traffic: StreamTraffic) -> list[CopyVariant]:
        """The launch shapes that suit the traffic, for its streams and for one stream of each direction."""
        return [
            CopyVariant(shape.name(streams), partial(self._bind, shape, streams))
            for streams in dict.fromkeys((traffic, traffic.flat))
            for shape in _SHAPES
            if shape.is_worth_trying(_count_vectors(streams), streams.reads, self._multiprocessors)
        ]

    def _bind(
        self, shape: _Shape, traffic: StreamTraffic, source: torch.Tensor, destination: torch.Tensor, spread: int
    ) -> Call:
        streams = (*traffic.in_units(_VECTOR_BYTES, spread), traffic.reads, traffic.writes, traffic.in_pairs)
        blocks = shape.blocks(_count_vectors(traffic), self._multiprocessors)
        launch = (shape.threads, shape.vecs, blocks, shape.instructions)
        return partial(self._copy, source.data_ptr(), destination.data_ptr(), *streams, *launch)


def _count_vectors(traffic: StreamTraffic) -> int:
    return max(traffic.in_units(_VECTOR_BYTES)[1:])
