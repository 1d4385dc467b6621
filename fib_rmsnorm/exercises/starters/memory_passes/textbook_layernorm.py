"""LayerNorm as the textbook has it, to read: out = (x - mean(x)) * rsqrt(var(x) + eps) * weight for each row of x."""

import torch
import triton
import triton.language as tl


@triton.jit
def layernorm_kernel(x_ptr, weight_ptr, out_ptr, eps, N_ELEMENTS: tl.constexpr, BLOCK_SIZE: tl.constexpr):
    row_idx = tl.program_id(0).to(tl.int64)

    # Pass 1: the mean
    total = 0.0
    for i in range(0, N_ELEMENTS, BLOCK_SIZE):
        offsets = i + tl.arange(0, BLOCK_SIZE)
        mask = offsets < N_ELEMENTS
        x = tl.load(x_ptr + row_idx * N_ELEMENTS + offsets, mask=mask, other=0.0).to(tl.float32)
        total += tl.sum(x, axis=0)
    mean = total / N_ELEMENTS

    # Pass 2: the variance
    squares = 0.0
    for i in range(0, N_ELEMENTS, BLOCK_SIZE):
        offsets = i + tl.arange(0, BLOCK_SIZE)
        mask = offsets < N_ELEMENTS
        x = tl.load(x_ptr + row_idx * N_ELEMENTS + offsets, mask=mask, other=0.0).to(tl.float32)
        centred = tl.where(mask, x - mean, 0.0)
        squares += tl.sum(centred * centred, axis=0)
    rstd = tl.rsqrt(squares / N_ELEMENTS + eps)

    # Pass 3: the output
    for i in range(0, N_ELEMENTS, BLOCK_SIZE):
        offsets = i + tl.arange(0, BLOCK_SIZE)
        mask = offsets < N_ELEMENTS
        x = tl.load(x_ptr + row_idx * N_ELEMENTS + offsets, mask=mask, other=0.0).to(tl.float32)
        weight = tl.load(weight_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
        out = (x - mean) * rstd * weight
        tl.store(out_ptr + row_idx * N_ELEMENTS + offsets, out.to(out_ptr.dtype.element_ty), mask=mask)


def run(x: torch.Tensor, weight: torch.Tensor, eps: float, out: torch.Tensor) -> None:
    """Write LayerNorm of the rows of x, (batch, hidden), to out, (batch, hidden); weight is (hidden,)."""
    batch, hidden = x.shape
    layernorm_kernel[(batch,)](x, weight, out, eps, N_ELEMENTS=hidden, BLOCK_SIZE=256)
