"""Gradients of norms over rows in Triton, computed in float32 and rounded once: of x, of the weight and of the bias.

RMSNorm has no mean and no dbias, add + RMSNorm has a gradient of the new residual: a kernel gets None for what a norm
does not have. Sums over rows are added in an order that follows from the launch alone, so they never differ.
"""

import triton
import triton.language as tl

from .row_tiles import sum_both_rows, sum_rows


@triton.jit
def load_rows(ptr, rows, cols, batch, HIDDEN: tl.constexpr):
    return tl.load(ptr + rows * HIDDEN + cols, mask=(cols < HIDDEN) & (rows < batch), other=0.0)


@triton.jit
def normalize(x, mean, rstd):
    if mean is not None:
        x = x - mean
    return x * rstd


# batch must not be specialised: each of "is 1" and "is a multiple of 16" would compile the kernel again.
@triton.jit(do_not_specialize=["batch"])
def gradient_rows(
    dy_ptr,
    dnew_residual_ptr,
    x_ptr,
    weight_ptr,
    mean_ptr,
    rstd_ptr,
    dx_ptr,
    dweight_ptr,
    dbias_ptr,
    partials_ptr,
    arrivals_ptr,
    batch,
    HIDDEN: tl.constexpr,
    BLOCK: tl.constexpr,
    ROWS: tl.constexpr,
    WARPS: tl.constexpr,
    VECTOR: tl.constexpr,
    COLS: tl.constexpr,
):
    """dx, and the sums of the program's rows: `partials`, [programs, HIDDEN], twice if there is a dbias.

    The rows of the next turn are requested before those of this one are added. With `arrivals`, all programs run at
    once, wait for each other, and add the partial sums of some columns each.
    """
    stride = tl.num_programs(0).to(tl.int64) * ROWS
    cols = tl.arange(0, BLOCK)[None, :]
    weight = tl.load(weight_ptr + cols, mask=cols < HIDDEN, other=0.0)
    dweight = tl.zeros((1, BLOCK), tl.float32)
    dbias = tl.zeros((1, BLOCK), tl.float32)

    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    next_x = load_rows(x_ptr, rows, cols, batch, HIDDEN)
    next_dy = load_rows(dy_ptr, rows, cols, batch, HIDDEN)
    for _ in range(tl.program_id(0) * ROWS, batch, tl.num_programs(0) * ROWS):
        x = next_x.to(tl.float32)
        dy = next_dy.to(tl.float32)
        rstd = tl.load(rstd_ptr + rows, mask=rows < batch, other=0.0)
        mean = None
        if mean_ptr is not None:
            mean = tl.load(mean_ptr + rows, mask=rows < batch, other=0.0)
        dnew_residual = None
        if dnew_residual_ptr is not None:
            dnew_residual = load_rows(dnew_residual_ptr, rows, cols, batch, HIDDEN)
        next_x = load_rows(x_ptr, rows + stride, cols, batch, HIDDEN)
        next_dy = load_rows(dy_ptr, rows + stride, cols, batch, HIDDEN)

        normalized = normalize(x, mean, rstd)
        scaled = dy * weight.to(tl.float32)
        if mean_ptr is not None:
            products, sums = sum_both_rows(scaled * normalized, scaled, WARPS, VECTOR)
            dx = scaled - sums / HIDDEN - normalized * (products / HIDDEN)
        else:
            dx = scaled - normalized * (sum_rows(scaled * normalized, WARPS, VECTOR) / HIDDEN)
        dx = dx * rstd
        if dnew_residual_ptr is not None:
            dx = dx + dnew_residual.to(tl.float32)
        places = dx_ptr + rows * HIDDEN + cols
        tl.store(places, dx.to(dx_ptr.dtype.element_ty), mask=(cols < HIDDEN) & (rows < batch))
        dweight += tl.sum(dy * normalized, axis=0, keep_dims=True)
        if dbias_ptr is not None:
            dbias += tl.sum(dy, axis=0, keep_dims=True)
        rows += stride

    places = partials_ptr + tl.program_id(0).to(tl.int64) * HIDDEN + cols
    tl.store(places, dweight, mask=cols < HIDDEN)
    if dbias_ptr is not None:
        tl.store(places + tl.num_programs(0).to(tl.int64) * HIDDEN, dbias, mask=cols < HIDDEN)
    if arrivals_ptr is not None:
        wait_for_all_programs(arrivals_ptr)
        for first in range(tl.program_id(0) * COLS, HIDDEN, tl.num_programs(0) * COLS):
            add_columns(partials_ptr, dweight_ptr, dbias_ptr, first, tl.num_programs(0), HIDDEN, COLS)


@triton.jit
def wait_for_all_programs(arrivals_ptr):
    """A barrier of the whole grid, which leaves its counter as the next one needs it.

    All arrivals add up to 2^31, and change the sign of the counter: the last of them, and no other.
    """
    tl.debug_barrier()  # the program's other threads have stored what they had
    programs = tl.num_programs(0)
    step = 1
    if tl.program_id(0) == 0:
        step = -2147483647 - programs
    before = tl.atomic_add(arrivals_ptr, step, sem="acq_rel", scope="gpu")
    now = before
    while (before ^ now) >= 0:
        now = tl.atomic_add(arrivals_ptr, 0, sem="acquire", scope="gpu")
    tl.debug_barrier()


@triton.jit
def add_columns(partials_ptr, dweight_ptr, dbias_ptr, first, parts, HIDDEN: tl.constexpr, COLS: tl.constexpr):
    add_parts(partials_ptr, dweight_ptr, first, parts, HIDDEN, COLS)
    if dbias_ptr is not None:
        add_parts(partials_ptr + parts.to(tl.int64) * HIDDEN, dbias_ptr, first, parts, HIDDEN, COLS)


@triton.jit
def add_parts(partials_ptr, sums_ptr, first, parts, HIDDEN: tl.constexpr, COLS: tl.constexpr):
    PARTS: tl.constexpr = 4096 // COLS if COLS < 4096 else 1
    cols = first + tl.arange(0, COLS)[None, :]
    sums = tl.zeros((PARTS, COLS), tl.float32)
    for start in range(0, parts, PARTS):
        part = (start + tl.arange(0, PARTS)[:, None]).to(tl.int64)
        sums += tl.load(partials_ptr + part * HIDDEN + cols, mask=(part < parts) & (cols < HIDDEN), other=0.0)
    total = tl.sum(sums, axis=0, keep_dims=True)
    tl.store(sums_ptr + cols, total.to(sums_ptr.dtype.element_ty), mask=cols < HIDDEN)


@triton.jit(do_not_specialize=["parts"])
def gradient_columns(partials_ptr, dweight_ptr, dbias_ptr, parts, HIDDEN: tl.constexpr, COLS: tl.constexpr):
    """The second kernel, where programs cannot wait for each other."""
    add_columns(partials_ptr, dweight_ptr, dbias_ptr, tl.program_id(0) * COLS, parts, HIDDEN, COLS)


@triton.jit
def gradient_long_row(
    dy_ptr,
    dnew_residual_ptr,
    x_ptr,
    weight_ptr,
    mean_ptr,
    rstd_ptr,
    dx_ptr,
    HIDDEN: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """dx of a row that is too long for the registers of a program, which reads it twice."""
    row = tl.program_id(0).to(tl.int64) + tl.arange(0, 1)[:, None]
    rstd = tl.load(rstd_ptr + row)
    mean = None
    if mean_ptr is not None:
        mean = tl.load(mean_ptr + row)

    products = tl.zeros((1, BLOCK), tl.float32)
    sums = tl.zeros((1, BLOCK), tl.float32)
    for start in range(0, HIDDEN, BLOCK):
        cols = start + tl.arange(0, BLOCK)[None, :]
        normalized = normalize(load_rows(x_ptr, row, cols, row + 1, HIDDEN).to(tl.float32), mean, rstd)
        weight = tl.load(weight_ptr + cols, mask=cols < HIDDEN, other=0.0).to(tl.float32)
        scaled = load_rows(dy_ptr, row, cols, row + 1, HIDDEN).to(tl.float32) * weight
        products += scaled * normalized
        if mean_ptr is not None:
            sums += scaled
    mean_product = tl.sum(products) / HIDDEN
    mean_scaled = tl.sum(sums) / HIDDEN

    for start in range(0, HIDDEN, BLOCK):
        cols = start + tl.arange(0, BLOCK)[None, :]
        normalized = normalize(load_rows(x_ptr, row, cols, row + 1, HIDDEN).to(tl.float32), mean, rstd)
        weight = tl.load(weight_ptr + cols, mask=cols < HIDDEN, other=0.0).to(tl.float32)
        scaled = load_rows(dy_ptr, row, cols, row + 1, HIDDEN).to(tl.float32) * weight
        dx = (scaled - mean_scaled - normalized * mean_product) * rstd
        if dnew_residual_ptr is not None:
            dx += load_rows(dnew_residual_ptr, row, cols, row + 1, HIDDEN).to(tl.float32)
        tl.store(dx_ptr + row * HIDDEN + cols, dx.to(dx_ptr.dtype.element_ty), mask=cols < HIDDEN)


@triton.jit(do_not_specialize=["batch"])
def gradient_long_columns(
    dy_ptr,
    x_ptr,
    mean_ptr,
    rstd_ptr,
    dweight_ptr,
    dbias_ptr,
    batch,
    HIDDEN: tl.constexpr,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
):
    """The sums over all rows of some columns of long rows."""
    cols = tl.program_id(0) * COLS + tl.arange(0, COLS)[None, :]
    dweight = tl.zeros((ROWS, COLS), tl.float32)
    dbias = tl.zeros((ROWS, COLS), tl.float32)
    for start in range(0, batch, ROWS):
        rows = (start + tl.arange(0, ROWS)[:, None]).to(tl.int64)
        rstd = tl.load(rstd_ptr + rows, mask=rows < batch, other=0.0)
        mean = None
        if mean_ptr is not None:
            mean = tl.load(mean_ptr + rows, mask=rows < batch, other=0.0)
        dy = load_rows(dy_ptr, rows, cols, batch, HIDDEN).to(tl.float32)
        dweight += dy * normalize(load_rows(x_ptr, rows, cols, batch, HIDDEN).to(tl.float32), mean, rstd)
        dbias += dy
    sums = tl.sum(dweight, axis=0, keep_dims=True)
    tl.store(dweight_ptr + cols, sums.to(dweight_ptr.dtype.element_ty), mask=cols < HIDDEN)
    if dbias_ptr is not None:
        sums = tl.sum(dbias, axis=0, keep_dims=True)
        tl.store(dbias_ptr + cols, sums.to(dbias_ptr.dtype.element_ty), mask=cols < HIDDEN)
