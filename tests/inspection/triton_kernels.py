"""Kernels whose compiled code is known: one with wide accesses, one with narrow ones, one with a loop."""

import triton
import triton.language as tl


@triton.jit
def normalize(x_ptr, out_ptr, COLS: tl.constexpr):
    """Holds a row in registers."""
    cols = tl.program_id(0) * COLS + tl.arange(0, COLS)
    x = tl.load(x_ptr + cols).to(tl.float32)
    tl.store(out_ptr + cols, (x * tl.rsqrt(tl.sum(x * x) / COLS)).to(tl.float16))


@triton.jit
def every_second(x_ptr, out_ptr, COLS: tl.constexpr):
    cols = 2 * tl.arange(0, COLS)
    tl.store(out_ptr + cols, tl.load(x_ptr + cols))


@triton.jit
def add_up(x_ptr, out_ptr, n, COLS: tl.constexpr):
    total = tl.zeros([COLS], tl.float32)
    for start in range(0, n, COLS):
        total += tl.load(x_ptr + start + tl.arange(0, COLS))
    tl.store(out_ptr + tl.arange(0, COLS), total)
