"""The gradients of LayerNorm in Triton, in float32, each rounded once: dx by rows, dweight and dbias by columns."""

import triton
import triton.language as tl

MAX_BLOCK = 4096  # columns of a row that a program holds at once
ROWS, COLS = 32, 64  # of x that a program holds at once to add the rows


@triton.jit
def differentiate_row(dy_ptr, x_ptr, weight_ptr, mean_ptr, rstd_ptr, dx_ptr, HIDDEN: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)  # batch * hidden may exceed 2^31
    mean, rstd = tl.load(mean_ptr + row), tl.load(rstd_ptr + row)
    dy_ptr += row * HIDDEN
    x_ptr += row * HIDDEN
    dx_ptr += row * HIDDEN

    sums, products = tl.zeros((BLOCK,), tl.float32), tl.zeros((BLOCK,), tl.float32)
    for start in range(0, HIDDEN, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + cols, mask=cols < HIDDEN, other=0.0).to(tl.float32)
        weight = tl.load(weight_ptr + cols, mask=cols < HIDDEN, other=0.0).to(tl.float32)
        scaled = tl.load(dy_ptr + cols, mask=cols < HIDDEN, other=0.0).to(tl.float32) * weight
        sums += scaled
        products += scaled * (x - mean) * rstd  # beyond the row, scaled is 0
    mean_scaled, mean_product = tl.sum(sums) / HIDDEN, tl.sum(products) / HIDDEN

    for start in range(0, HIDDEN, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + cols, mask=cols < HIDDEN, other=0.0).to(tl.float32)
        weight = tl.load(weight_ptr + cols, mask=cols < HIDDEN, other=0.0).to(tl.float32)
        scaled = tl.load(dy_ptr + cols, mask=cols < HIDDEN, other=0.0).to(tl.float32) * weight
        dx = (scaled - mean_scaled - (x - mean) * rstd * mean_product) * rstd
        tl.store(dx_ptr + cols, dx.to(dx_ptr.dtype.element_ty), mask=cols < HIDDEN)


@triton.jit
def add_rows(
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
    cols = tl.program_id(0) * COLS + tl.arange(0, COLS)
    dweight, dbias = tl.zeros((COLS,), tl.float32), tl.zeros((COLS,), tl.float32)
    for start in range(0, batch, ROWS):
        rows = (start + tl.arange(0, ROWS)).to(tl.int64)
        places = rows[:, None] * HIDDEN + cols[None, :]
        inside = (rows < batch)[:, None] & (cols < HIDDEN)[None, :]
        mean = tl.load(mean_ptr + rows, mask=rows < batch, other=0.0)[:, None]
        rstd = tl.load(rstd_ptr + rows, mask=rows < batch, other=0.0)[:, None]
        dy = tl.load(dy_ptr + places, mask=inside, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + places, mask=inside, other=0.0).to(tl.float32)
        dweight += tl.sum(dy * (x - mean) * rstd, axis=0)
        dbias += tl.sum(dy, axis=0)
    tl.store(dweight_ptr + cols, dweight.to(dweight_ptr.dtype.element_ty), mask=cols < HIDDEN)
    tl.store(dbias_ptr + cols, dbias.to(dbias_ptr.dtype.element_ty), mask=cols < HIDDEN)


def run(dy, x, weight, mean, rstd, dx, dweight, dbias) -> None:
    """Write dx, (batch, hidden), dweight and dbias, (hidden,); dy and x are like dx, mean and rstd (batch,)."""
    batch, hidden = x.shape
    block = min(triton.next_power_of_2(hidden), MAX_BLOCK)
    differentiate_row[(batch,)](dy, x, weight, mean, rstd, dx, HIDDEN=hidden, BLOCK=block, num_warps=8)
    add_rows[(triton.cdiv(hidden, COLS),)](
        dy, x, mean, rstd, dweight, dbias, batch, HIDDEN=hidden, ROWS=ROWS, COLS=COLS
    )
