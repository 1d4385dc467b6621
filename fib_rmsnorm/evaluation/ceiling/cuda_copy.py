"""The copy in CUDA C++."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from fib_rmsnorm.evaluation.ceiling.ceiling_messages import StreamTraffic
from fib_rmsnorm.evaluation.ceiling.copier import Copier, CopyVariant, load_copy
from fib_rmsnorm.evaluation.timing.timer import Call

SOURCE = "copy.cu"
_VECTOR_BYTES = 16
_MAX_LOADS = 8  # in flight per thread, as in the source
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
        if self.vecs * reads > _MAX_LOADS:
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
        streams = (*traffic.in_units(_VECTOR_BYTES, spread), traffic.reads, traffic.writes)
        blocks = shape.blocks(_count_vectors(traffic), self._multiprocessors)
        launch = (shape.threads, shape.vecs, blocks, shape.instructions)
        return partial(self._copy, source.data_ptr(), destination.data_ptr(), *streams, *launch)


def _count_vectors(traffic: StreamTraffic) -> int:
    """Vectors of the longest stream."""
    return max(traffic.in_units(_VECTOR_BYTES)[1:])
