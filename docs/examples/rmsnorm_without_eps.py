"""A student's first RMSNorm in Triton, of which the first hour tells: it forgets eps."""

import torch
import triton
import triton.language as tl


@triton.jit
def kernel(a_ptr, b_ptr, out_ptr, COLS: tl.constexpr):
    col = tl.arange(0, COLS)
    row = tl.program_id(0).to(tl.int64) * COLS
    a = tl.load(a_ptr + row + col).to(tl.float32)
    b = tl.load(b_ptr + col).to(tl.float32)
    out = a / tl.sqrt(tl.sum(a * a) / COLS) * b
    tl.store(out_ptr + row + col, out.to(tl.float16))


def rmsnorm(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Normalize the rows of a, and scale them by b."""
    out = torch.empty_like(a)
    kernel[(a.shape[0],)](a, b, out, a.shape[1])
    return out
