"""The copy in Triton, for GPUs of machines without nvcc."""

# ruff: noqa: ANN001, N803 - a kernel's parameters

from functools import partial
from typing import Any

import torch
import triton
import triton.language as tl

from fib_rmsnorm.evaluation.ceiling.ceiling_messages import StreamTraffic
from fib_rmsnorm.evaluation.ceiling.copier import Copier, CopyVariant
from fib_rmsnorm.evaluation.timing.timer import Call

_WORD_BYTES = 4
_SHAPES = [(block, warps) for warps in (1, 2, 4, 8, 16) for block in (128 * warps, 256 * warps, 512 * warps)]


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _copy(  # type: ignore[no-untyped-def] # noqa: ANN202, PLR0913, PLR0917
    source,
    destination,
    stride,
    words,
    last_read,
    last_written,
    READS: tl.constexpr,
    WRITES: tl.constexpr,
    BLOCK: tl.constexpr,
):
    index = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    # The last stream of a direction has its own number of words: those of small tensors follow it.
    read = tl.load(source + (READS - 1) * stride + index, mask=index < last_read, other=0)
    for r in tl.static_range(READS - 1):
        read ^= tl.load(source + r * stride + index, mask=index < words, other=0)
    tl.store(destination + (WRITES - 1) * stride + index, read, mask=index < last_written)
    for w in tl.static_range(WRITES - 1):
        tl.store(destination + w * stride + index, read, mask=index < words)
    if (tl.program_id(0) + 1) * BLOCK > last_written:  # folds words that are only read: the compiler keeps the reads
        fold = tl.xor_sum(tl.where(index >= last_written, read, 0), axis=0)
        tl.store(destination, fold, mask=fold == -1)


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _nothing():  # type: ignore[no-untyped-def] # noqa: ANN202
    pass


class TritonCopy(Copier):
    """A copy in which each program moves one block of words of each stream."""

    @staticmethod
    def empty() -> None:
        """Launch an empty kernel."""
        _nothing[(1,)](num_warps=1)

    def variants(self, traffic: StreamTraffic) -> list[CopyVariant]:
        """Several block sizes."""
        return [
            CopyVariant(f"triton {block} words, {warps} warps{traffic.suffix}", partial(_bind, traffic, block, warps))
            for block, warps in _SHAPES
        ]


def _bind(
    traffic: StreamTraffic, block: int, warps: int, source: torch.Tensor, destination: torch.Tensor, spread: int
) -> Call:
    stride, *lengths = traffic.in_units(_WORD_BYTES, spread)
    grid = (triton.cdiv(max(lengths), block),)
    tensors: list[Any] = [each[: each.numel() // 4 * 4].view(torch.int32) for each in (source, destination)]
    arguments = (*tensors, stride, *lengths, traffic.reads, traffic.writes, block)
    return partial(_copy[grid], *arguments, num_warps=warps)
