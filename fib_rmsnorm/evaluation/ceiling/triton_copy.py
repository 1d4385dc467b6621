"""The copy in Triton, for GPUs of machines without nvcc."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import triton
import triton.language as tl

from fib_rmsnorm.evaluation.ceiling.copier import CopyVariant
from fib_rmsnorm.evaluation.timing.timer import Call

_WORD_BYTES = 4
_SHAPES = [(block, warps) for warps in (1, 2, 4, 8, 16) for block in (128 * warps, 256 * warps, 512 * warps)]


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _copy(source, destination, read, written, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202, N803
    start = tl.program_id(0).to(tl.int64) * BLOCK
    index = start + tl.arange(0, BLOCK)
    words = tl.load(source + index, mask=index < read, other=0)
    tl.store(destination + index, words, mask=index < written)
    if start + BLOCK > written:  # folds words that are only read, so that the compiler keeps the reads
        fold = tl.xor_sum(tl.where(index >= written, words, 0), axis=0)
        tl.store(destination, fold, mask=fold == -1)


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _nothing():  # type: ignore[no-untyped-def] # noqa: ANN202
    pass


class TritonCopy:
    """A copy in which each program moves one block of words."""

    cores = ()

    @staticmethod
    def empty() -> None:
        """Launch an empty kernel."""
        _nothing[(1,)](num_warps=1)

    def variants(self, bytes_read: int, bytes_written: int) -> list[CopyVariant]:
        """Several block sizes."""
        read, written = (-(-amount // _WORD_BYTES) for amount in (bytes_read, bytes_written))
        return [
            CopyVariant(f"triton {block} words, {warps} warps", partial(_bind, read, written, block, warps))
            for block, warps in _SHAPES
        ]


def _bind(read: int, written: int, block: int, warps: int, source: torch.Tensor, destination: torch.Tensor) -> Call:
    grid = (triton.cdiv(max(read, written), block),)
    words: list[Any] = [tensor[: tensor.numel() // 4 * 4].view(torch.int32) for tensor in (source, destination)]
    return partial(_copy[grid], *words, read, written, block, num_warps=warps)
