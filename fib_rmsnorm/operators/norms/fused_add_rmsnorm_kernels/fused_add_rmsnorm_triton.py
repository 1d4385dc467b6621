"""Add + RMSNorm in Triton: the sum is normalized in float32, and both outputs are rounded once. A program a row."""

import torch
import triton
import triton.language as tl

MAX_BLOCK = 4096  # columns that a program holds at once


@triton.jit
def add(x_ptr, residual_ptr, cols, HIDDEN: tl.constexpr):
    """The unrounded sum in some columns of a row."""
    x = tl.load(x_ptr + cols, mask=cols < HIDDEN, other=0.0).to(tl.float32)
    return x + tl.load(residual_ptr + cols, mask=cols < HIDDEN, other=0.0).to(tl.float32)


@triton.jit
def add_and_normalize_row(
    x_ptr, residual_ptr, weight_ptr, eps, out_ptr, new_residual_ptr, HIDDEN: tl.constexpr, BLOCK: tl.constexpr
):
    start_of_row = tl.program_id(0).to(tl.int64) * HIDDEN  # batch * hidden may exceed 2^31
    x_ptr += start_of_row
    residual_ptr += start_of_row
    out_ptr += start_of_row
    new_residual_ptr += start_of_row

    squares = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, HIDDEN, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        total = add(x_ptr, residual_ptr, cols, HIDDEN)
        tl.store(new_residual_ptr + cols, total.to(new_residual_ptr.dtype.element_ty), mask=cols < HIDDEN)
        squares += total * total
    rstd = 1.0 / tl.sqrt(tl.sum(squares) / HIDDEN + eps)

    for start in range(0, HIDDEN, BLOCK):  # adds again, because new_residual is rounded
        cols = start + tl.arange(0, BLOCK)
        total = add(x_ptr, residual_ptr, cols, HIDDEN)
        weight = tl.load(weight_ptr + cols, mask=cols < HIDDEN, other=0.0).to(tl.float32)
        tl.store(out_ptr + cols, (total * rstd * weight).to(out_ptr.dtype.element_ty), mask=cols < HIDDEN)


def run(
    x: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor,
    eps: float,
    out: torch.Tensor,
    new_residual: torch.Tensor,
) -> None:
    """Write x + residual, (batch, hidden), to new_residual, and its rows, normalized and scaled by weight, to out."""
    batch, hidden = x.shape
    block = min(triton.next_power_of_2(hidden), MAX_BLOCK)
    add_and_normalize_row[(batch,)](
        x, residual, weight, eps, out, new_residual, HIDDEN=hidden, BLOCK=block, num_warps=8
    )
