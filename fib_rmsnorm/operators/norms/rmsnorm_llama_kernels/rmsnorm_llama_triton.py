"""Llama's RMSNorm in Triton: out = weight * (x * rsqrt(mean(x^2) + eps)), in float32.

The product in brackets is rounded to the dtype of x before the weight. One program for each row.
"""

import torch
import triton
import triton.language as tl

MAX_BLOCK = 4096  # columns that a program holds at once


@triton.jit
def normalize_row(x_ptr, weight_ptr, eps, out_ptr, HIDDEN: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)  # batch * hidden may exceed 2^31
    x_ptr += row * HIDDEN
    out_ptr += row * HIDDEN

    squares = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, HIDDEN, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + cols, mask=cols < HIDDEN, other=0.0).to(tl.float32)
        squares += x * x
    rstd = 1.0 / tl.sqrt(tl.sum(squares) / HIDDEN + eps)

    for start in range(0, HIDDEN, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + cols, mask=cols < HIDDEN, other=0.0).to(tl.float32)
        weight = tl.load(weight_ptr + cols, mask=cols < HIDDEN, other=0.0).to(tl.float32)
        normalized = (x * rstd).to(out_ptr.dtype.element_ty)
        out = normalized.to(tl.float32) * weight
        tl.store(out_ptr + cols, out.to(out_ptr.dtype.element_ty), mask=cols < HIDDEN)


def run(x: torch.Tensor, weight: torch.Tensor, eps: float, out: torch.Tensor) -> None:
    """Write the normalized rows of x, (batch, hidden), scaled by weight, (hidden,), to out, (batch, hidden)."""
    batch, hidden = x.shape
    block = min(triton.next_power_of_2(hidden), MAX_BLOCK)
    normalize_row[(batch,)](x, weight, eps, out, HIDDEN=hidden, BLOCK=block, num_warps=8)
