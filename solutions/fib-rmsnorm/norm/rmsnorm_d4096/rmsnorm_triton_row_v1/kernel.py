"""RMSNorm in Triton: out = x * rsqrt(mean(x^2) + eps) * weight, in float32, rounded once."""

import functools
from typing import NamedTuple

import torch
import triton
import triton.language as tl

from .choices import find_choice
from .row_tiles import TO_BARRIER, UNTIED, sum_rows, tie, tie_to_barrier, tie_to_weight

# A longer row does not fit the registers of one program: it spills from 128 KiB on.
MAX_ROW_BYTES = 65536
LOOP_BLOCK = 8192


# batch must not be specialised: each of "is 1" and "is a multiple of 16" would compile the kernel again.
@triton.jit(do_not_specialize=["batch"])
def rmsnorm_rows(
    x_ptr,
    weight_ptr,
    out_ptr,
    batch,
    eps,
    HIDDEN: tl.constexpr,
    BLOCK: tl.constexpr,
    ROWS: tl.constexpr,
    WARPS: tl.constexpr,
    TIED: tl.constexpr,
):
    VECTOR: tl.constexpr = 128 // x_ptr.dtype.element_ty.primitive_bitwidth
    # 64 bits: batch * hidden may exceed 2^31 elements. Adding rows first and columns then takes fewer instructions.
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    cols = tl.arange(0, BLOCK)[None, :]
    mask = cols < HIDDEN
    if ROWS > 1:  # otherwise there is a program for each row
        mask &= rows < batch

    x = tl.load(x_ptr + rows * HIDDEN + cols, mask=mask, other=0.0)
    weight = tl.load(weight_ptr + cols, mask=cols < HIDDEN, other=0.0)
    DIVIDES: tl.constexpr = WARPS > 1 and WARPS * 32 * VECTOR <= BLOCK  # each thread has vectors of each row
    if TIED == TO_BARRIER and DIVIDES:
        x = tie_to_barrier(x, batch, WARPS, VECTOR)
    elif TIED != UNTIED:
        x = tie_to_weight(x, weight, batch)
    x = x.to(tl.float32)
    weight = weight.to(tl.float32)
    sums = sum_rows(x * x, WARPS, VECTOR) if DIVIDES else tl.sum(x * x, axis=1, keep_dims=True)
    rstd = tl.rsqrt(sums / HIDDEN + eps)
    tl.store(out_ptr + rows * HIDDEN + cols, (x * rstd * weight).to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def rmsnorm_loop(x_ptr, weight_ptr, out_ptr, eps, HIDDEN: tl.constexpr, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * HIDDEN
    block = tl.arange(0, BLOCK)

    squares = tl.zeros([BLOCK], tl.float32)
    for first in range(0, HIDDEN, BLOCK):
        cols = first + block
        x = tl.load(x_ptr + start + cols, mask=cols < HIDDEN, other=0.0).to(tl.float32)
        squares += x * x
    rstd = tl.rsqrt(tl.sum(squares, axis=0) / HIDDEN + eps)

    for first in range(0, HIDDEN, BLOCK):
        cols = first + block
        mask = cols < HIDDEN
        x = tl.load(x_ptr + start + cols, mask=mask, other=0.0).to(tl.float32)
        weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
        tl.store(out_ptr + start + cols, (x * rstd * weight).to(out_ptr.dtype.element_ty), mask=mask)


class Launch(NamedTuple):
    """How rows are spread over programs: the kernel's constants after HIDDEN."""

    block: int
    rows: int  # of a program; 0: one is too long for its registers
    warps: int  # of a program
    tied: int  # what x is tied to


@functools.lru_cache(maxsize=1024)
def plan(batch, hidden, dtype):
    """As measured where this shape was tuned.

    Elsewhere: up to 8 warps for a row with 16 elements a thread, more only where a thread would hold over 64; short
    rows share a program once there are many.
    """
    block = triton.next_power_of_2(hidden)
    if block * dtype.itemsize > MAX_ROW_BYTES:
        return Launch(LOOP_BLOCK, 0, 16, UNTIED.value)
    choice = find_choice(batch, hidden=hidden, itemsize=dtype.itemsize)
    if choice is not None:
        return Launch(block, choice["rows"], choice["rows"] * choice["warps"], tie(choice["tied"], batch, dtype))
    rows = 1 if batch < 8192 else max(1, min(4, 2048 // block))
    return Launch(block, rows, rows * min(max(1, min(8, block // 512), block // 2048), 16), tie(None, batch, dtype))


def launch(x, weight, eps, out):
    batch, hidden = x.shape
    shape = plan(batch, hidden, x.dtype)
    if not shape.rows:
        rmsnorm_loop[(batch,)](x, weight, out, eps, HIDDEN=hidden, BLOCK=shape.block, num_warps=shape.warps)
    else:
        grid = (triton.cdiv(batch, shape.rows),)
        rmsnorm_rows[grid](x, weight, out, batch, eps, hidden, *shape, num_warps=shape.warps)


@functools.lru_cache(maxsize=1024)
def prepare(device, dtype, batch, hidden):
    """The launch of rmsnorm_rows on the current device for tensors on 16-byte boundaries, and its constants.

    Triton's own launch looks at every argument again, which takes longer than all the rest. None if rows are too long.
    """
    shape = plan(batch, hidden, dtype)
    if not shape.rows:
        return None
    constants = (hidden, *shape)
    compiled = rmsnorm_rows.warmup(dtype, dtype, dtype, 1, 1.0, *constants, grid=(1,), num_warps=shape.warps)
    return compiled[triton.cdiv(batch, shape.rows), 1, 1], constants


def launch_prepared(x, weight, eps, out):
    batch, hidden = x.shape
    addresses = x.data_ptr(), weight.data_ptr(), out.data_ptr()
    prepared = prepare(x.device, x.dtype, batch, hidden)
    if prepared is None or (addresses[0] | addresses[1] | addresses[2]) % 16:
        launch(x, weight, eps, out)
    else:
        start, constants = prepared
        start(*addresses, batch, eps, *constants)


def run(x, weight, eps, out):
    if x.numel() == 0:
        return
    if not x.is_cuda:
        launch(x, weight, eps, out)
    elif x.device.index == torch.cuda.current_device():
        launch_prepared(x, weight, eps, out)
    else:  # Triton launches on the current device; entering x's always would cost host time.
        with torch.cuda.device(x.device):
            launch_prepared(x, weight, eps, out)
