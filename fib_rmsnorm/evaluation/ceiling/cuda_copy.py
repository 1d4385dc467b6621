"""The copy in CUDA C++."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from fib_rmsnorm.evaluation.ceiling.copier import CopyVariant
from fib_rmsnorm.evaluation.ceiling.copy_sources import load_copy
from fib_rmsnorm.evaluation.timing.timer import Call

SOURCES = ("copy.cu", "copy_launch.h", "copy_binding.cpp")
_VECTOR_BYTES = 16
_RESIDENT_THREADS = 2048  # per multiprocessor; some have 1536, which makes little difference here
_WARP = 32


@dataclass(frozen=True)
class _Shape:
    """A launch shape."""

    threads: int
    """Threads that share a stretch of memory."""
    vecs: int
    """Vectors of 16 bytes that each thread has in flight."""
    stretches: int = 1
    """Stretches of memory per block."""
    blocks_per_multiprocessor: int = 0
    """Blocks per multiprocessor, which loop over the bytes in strides of the grid; 0 for a grid that covers them."""

    @property
    def name(self) -> str:
        block = f"{self.threads}x{self.vecs}" + (f"x{self.stretches}" if self.stretches > 1 else "")
        loop = f" looping, {self.blocks_per_multiprocessor} per SM" if self.blocks_per_multiprocessor else ""
        return f"cuda {block}{loop}"

    def blocks(self, vectors: int, multiprocessors: int) -> int:
        covering = -(-vectors // (self.threads * self.vecs * self.stretches))
        most = self.blocks_per_multiprocessor * multiprocessors or covering
        return max(1, min(covering, most))

    def is_worth_trying(self, vectors: int, multiprocessors: int) -> bool:
        """Whether the shape suits the size: it loops at least twice, and leaves no multiprocessor needlessly idle."""
        threads = vectors / self.vecs
        if self.blocks_per_multiprocessor:
            resident = self.blocks_per_multiprocessor * self.threads * multiprocessors
            return threads > 2 * resident
        if self.vecs > 1 and threads < 2 * _WARP * multiprocessors:
            return False
        return threads <= 64 * _RESIDENT_THREADS * multiprocessors


_SHAPES = [
    *(_Shape(threads, vecs) for vecs in (1, 2, 4, 8) for threads in (64, 128, 256, 512, 1024)),
    _Shape(32, 1),
    _Shape(64, 8, stretches=4),
    _Shape(128, 4, stretches=2),
    _Shape(256, 4, blocks_per_multiprocessor=8),
    _Shape(512, 2, blocks_per_multiprocessor=4),
    _Shape(512, 4, blocks_per_multiprocessor=4),
    _Shape(512, 8, blocks_per_multiprocessor=2),
    _Shape(1024, 4, blocks_per_multiprocessor=1),
    _Shape(1024, 8, blocks_per_multiprocessor=1),
]


class CudaCopy:
    """16-byte vectors through registers, in many launch shapes."""

    cores = ()

    def __init__(self, device: str, cache: Path) -> None:
        find = load_copy(SOURCES, cache)
        self.empty: Call = find("empty")
        self._copy = find("copy")
        self._copy_by_driver = find("copy_by_driver")
        self._multiprocessors: int = torch.cuda.get_device_properties(device).multi_processor_count

    def variants(self, bytes_read: int, bytes_written: int) -> list[CopyVariant]:
        """The launch shapes that suit the numbers of bytes, and the driver's copy if both numbers are equal.

        Bytes are rounded up to vectors. That adds no work, because memory moves in sectors of two vectors.
        """
        read, written = (-(-amount // _VECTOR_BYTES) for amount in (bytes_read, bytes_written))
        vectors = max(read, written)
        shapes = [shape for shape in _SHAPES if shape.is_worth_trying(vectors, self._multiprocessors)]
        variants = [CopyVariant(shape.name, partial(self._bind, shape, read, written)) for shape in shapes]
        if bytes_read == bytes_written:
            variants.append(CopyVariant("cudaMemcpyAsync", partial(self._bind_driver, bytes_read)))
        return variants

    def _bind(self, shape: _Shape, read: int, written: int, source: torch.Tensor, destination: torch.Tensor) -> Call:
        blocks = shape.blocks(max(read, written), self._multiprocessors)
        addresses = (source.data_ptr(), destination.data_ptr())
        return partial(self._copy, *addresses, read, written, shape.threads, shape.stretches, shape.vecs, blocks)

    def _bind_driver(self, amount: int, source: torch.Tensor, destination: torch.Tensor) -> Call:
        return partial(self._copy_by_driver, source.data_ptr(), destination.data_ptr(), amount)
