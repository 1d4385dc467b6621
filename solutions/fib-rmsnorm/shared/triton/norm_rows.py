"""Norms over rows in Triton, computed in float32: a program takes whole rows, or walks one that is too long for it.

A form of the norm has some of the tensors, and None for the others, which costs nothing: Triton compiles each set of
them by itself. Flags say what a form does beyond `out = x * rsqrt(mean(x^2) + eps) * weight`, rounded once.
"""

import triton
import triton.language as tl

from .row_tiles import TO_BARRIER, UNTIED, spread_over_rows, sum_and_max_rows, sum_rows, tie_to_barrier, tie_to_weight

CENTERED = tl.constexpr(1)  # LayerNorm: x - mean(x) instead of x
ROUNDS_SUM = tl.constexpr(2)  # x + residual is rounded before it is normalized
ROUNDS_NORMALIZED = tl.constexpr(4)  # Llama: x * rstd is rounded before the weight
ONE_PLUS_WEIGHT = tl.constexpr(8)  # Gemma: 1 + weight instead of the weight
RELU = tl.constexpr(16)

E4M3_LARGEST = tl.constexpr(448.0)
E5M2_LARGEST = tl.constexpr(57344.0)
# A row's scale is at least 1 / (the largest number * this), so that a row of zeros has one: vLLM's convention.
SMALLEST_SCALE = tl.constexpr(512.0)


@triton.jit
def add_residual(x, residual, FORM: tl.constexpr):
    """What is normalized, in float32."""
    total = x.to(tl.float32)
    if residual is not None:
        total += residual.to(tl.float32)
        if ROUNDS_SUM & FORM:
            total = total.to(x.dtype).to(tl.float32)
    return total


@triton.jit
def scale_and_shift(x, rstd, weight, bias, gate, dtype: tl.constexpr, FORM: tl.constexpr):
    """The epilogue of float32, up to quantisation; `dtype` is that of x in memory."""
    y = x * rstd
    if ROUNDS_NORMALIZED & FORM:
        y = y.to(dtype).to(tl.float32)
    if weight is not None:
        y = y * (weight + 1.0) if ONE_PLUS_WEIGHT & FORM else y * weight
    if bias is not None:
        y = y + bias
    if RELU & FORM:
        y = tl.maximum(y, 0.0, propagate_nan=tl.PropagateNan.ALL)
    if gate is not None:
        y = y * (gate / (1.0 + tl.exp(-gate)))
    return y


@triton.jit
def find_row_scale(maximum, LARGEST: tl.constexpr):
    return tl.maximum(maximum / LARGEST, 1.0 / (LARGEST * SMALLEST_SCALE))


@triton.jit
def quantise(y, inverse, LARGEST: tl.constexpr):
    """y over its scale, limited to the largest number of the format."""
    return tl.clamp(y * inverse, -LARGEST, LARGEST, propagate_nan=tl.PropagateNan.ALL)


# batch must not be specialised: each of "is 1" and "is a multiple of 16" would compile the kernel again.
@triton.jit(do_not_specialize=["batch"])
def norm_rows(
    x_ptr,
    residual_ptr,
    gate_ptr,
    weight_ptr,
    bias_ptr,
    out_scale_ptr,
    out_ptr,
    new_residual_ptr,
    row_scale_ptr,
    batch,
    eps,
    out_scale,
    HIDDEN: tl.constexpr,
    BLOCK: tl.constexpr,
    ROWS: tl.constexpr,
    WARPS: tl.constexpr,
    TIED: tl.constexpr,
    KEPT: tl.constexpr,
    FORM: tl.constexpr,
):
    X_BITS: tl.constexpr = x_ptr.dtype.element_ty.primitive_bitwidth
    OUT_BITS: tl.constexpr = out_ptr.dtype.element_ty.primitive_bitwidth
    VECTOR: tl.constexpr = 128 // (OUT_BITS if OUT_BITS < X_BITS else X_BITS)  # a thread loads or stores 16 bytes
    LARGEST: tl.constexpr = E5M2_LARGEST if out_ptr.dtype.element_ty == tl.float8e5 else E4M3_LARGEST
    # 64 bits: batch * hidden may exceed 2^31 elements. Adding rows first and columns then takes fewer instructions.
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    cols = tl.arange(0, BLOCK)[None, :]
    mask = cols < HIDDEN
    if ROWS > 1:  # otherwise there is a program for each row
        mask &= rows < batch

    POLICY: tl.constexpr = "evict_last" if KEPT else ""
    x = tl.load(x_ptr + rows * HIDDEN + cols, mask=mask, other=0.0, eviction_policy=POLICY)
    residual = None
    weight = None
    bias = None
    gate = None
    if residual_ptr is not None:
        residual = tl.load(residual_ptr + rows * HIDDEN + cols, mask=mask, other=0.0, eviction_policy=POLICY)
    if weight_ptr is not None:
        weight = tl.load(weight_ptr + cols, mask=cols < HIDDEN, other=0.0)
    if bias_ptr is not None:
        bias = tl.load(bias_ptr + cols, mask=cols < HIDDEN, other=0.0)
    if gate_ptr is not None:
        gate = tl.load(gate_ptr + rows * HIDDEN + cols, mask=mask, other=0.0)
    if out_scale_ptr is not None:
        out_scale = tl.load(out_scale_ptr)

    if TIED == TO_BARRIER and WARPS > 1 and WARPS * 32 * VECTOR <= BLOCK:
        x = tie_to_barrier(x, batch, WARPS, VECTOR)
    elif TIED != UNTIED:
        if weight_ptr is not None:
            x = tie_to_weight(x, weight, batch)
        if bias_ptr is not None:
            x = tie_to_weight(x, bias, batch)
        if gate_ptr is not None:
            x = tie_to_weight(x, gate, batch)

    wide = add_residual(x, residual, FORM)
    if weight_ptr is not None:
        weight = weight.to(tl.float32)
    if bias_ptr is not None:
        bias = bias.to(tl.float32)
    if gate_ptr is not None:
        gate = gate.to(tl.float32)
    if new_residual_ptr is not None:
        tl.store(new_residual_ptr + rows * HIDDEN + cols, wide.to(new_residual_ptr.dtype.element_ty), mask=mask)
    if CENTERED & FORM:
        wide = wide - sum_rows(wide, WARPS, VECTOR) / HIDDEN
        if BLOCK > HIDDEN:
            wide = tl.where(cols < HIDDEN, wide, 0.0)
    if row_scale_ptr is not None:
        unscaled = scale_and_shift(wide, 1.0, weight, bias, gate, x.dtype, FORM)
        squares, maxima = sum_and_max_rows(wide * wide, tl.abs(unscaled), WARPS, VECTOR)
        rstd = tl.rsqrt(squares / HIDDEN + eps)
        row_scale = find_row_scale(maxima * rstd, LARGEST)
        first = tl.arange(0, row_scale.shape[1])[None, :] == 0
        tl.store(row_scale_ptr + tl.broadcast_to(rows, row_scale.shape), row_scale, mask=first & (rows < batch))
        y = quantise(unscaled, spread_over_rows(rstd / row_scale, unscaled, WARPS, VECTOR), LARGEST)
        places = out_ptr + rows * HIDDEN + cols
    else:
        rstd = tl.rsqrt(sum_rows(wide * wide, WARPS, VECTOR) / HIDDEN + eps)
        places = out_ptr + rows * HIDDEN + cols
        y = scale_and_shift(wide, rstd, weight, bias, gate, x.dtype, FORM)
        if out_scale is not None:
            y = quantise(y, 1.0 / out_scale, LARGEST)
    tl.store(places, y.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def norm_loop(
    x_ptr,
    residual_ptr,
    gate_ptr,
    weight_ptr,
    bias_ptr,
    out_scale_ptr,
    out_ptr,
    new_residual_ptr,
    row_scale_ptr,
    eps,
    out_scale,
    HIDDEN: tl.constexpr,
    BLOCK: tl.constexpr,
    FORM: tl.constexpr,
):
    LARGEST: tl.constexpr = E5M2_LARGEST if out_ptr.dtype.element_ty == tl.float8e5 else E4M3_LARGEST
    row = tl.program_id(0).to(tl.int64)
    start = row * HIDDEN
    block = tl.arange(0, BLOCK)
    if out_scale_ptr is not None:
        out_scale = tl.load(out_scale_ptr)

    mean = 0.0
    if CENTERED & FORM:
        sums = tl.zeros([BLOCK], tl.float32)
        for first in range(0, HIDDEN, BLOCK):
            sums += load_sum(x_ptr, residual_ptr, start, first + block, HIDDEN, FORM)
        mean = tl.sum(sums, axis=0) / HIDDEN

    squares = tl.zeros([BLOCK], tl.float32)
    for first in range(0, HIDDEN, BLOCK):
        x = load_sum(x_ptr, residual_ptr, start, first + block, HIDDEN, FORM)
        if CENTERED & FORM:
            x = tl.where(first + block < HIDDEN, x - mean, 0.0)
        squares += x * x
    rstd = tl.rsqrt(tl.sum(squares, axis=0) / HIDDEN + eps)

    if row_scale_ptr is not None:
        maxima = tl.zeros([BLOCK], tl.float32)
        for first in range(0, HIDDEN, BLOCK):
            x = load_sum(x_ptr, residual_ptr, start, first + block, HIDDEN, FORM)
            y = finish_block(x, mean, rstd, weight_ptr, bias_ptr, gate_ptr, start, first + block, x_ptr, HIDDEN, FORM)
            maxima = tl.maximum(maxima, tl.abs(y))
        out_scale = find_row_scale(tl.max(maxima, axis=0), LARGEST)
        tl.store(row_scale_ptr + row, out_scale)

    for first in range(0, HIDDEN, BLOCK):
        cols = first + block
        mask = cols < HIDDEN
        x = load_sum(x_ptr, residual_ptr, start, cols, HIDDEN, FORM)
        y = finish_block(x, mean, rstd, weight_ptr, bias_ptr, gate_ptr, start, cols, x_ptr, HIDDEN, FORM)
        if out_scale is not None:
            y = quantise(y, 1.0 / out_scale, LARGEST)
        tl.store(out_ptr + start + cols, y.to(out_ptr.dtype.element_ty), mask=mask)
        if new_residual_ptr is not None:  # last, because it may be the residual itself
            tl.store(new_residual_ptr + start + cols, x.to(new_residual_ptr.dtype.element_ty), mask=mask)


@triton.jit
def load_sum(x_ptr, residual_ptr, start, cols, HIDDEN: tl.constexpr, FORM: tl.constexpr):
    x = tl.load(x_ptr + start + cols, mask=cols < HIDDEN, other=0.0)
    residual = None
    if residual_ptr is not None:
        residual = tl.load(residual_ptr + start + cols, mask=cols < HIDDEN, other=0.0)
    return add_residual(x, residual, FORM)


@triton.jit
def finish_block(
    x, mean, rstd, weight_ptr, bias_ptr, gate_ptr, start, cols, x_ptr, HIDDEN: tl.constexpr, FORM: tl.constexpr
):
    """The epilogue of some columns of a row, up to quantisation."""
    weight = None
    bias = None
    gate = None
    if weight_ptr is not None:
        weight = tl.load(weight_ptr + cols, mask=cols < HIDDEN, other=0.0).to(tl.float32)
    if bias_ptr is not None:
        bias = tl.load(bias_ptr + cols, mask=cols < HIDDEN, other=0.0).to(tl.float32)
    if gate_ptr is not None:
        gate = tl.load(gate_ptr + start + cols, mask=cols < HIDDEN, other=0.0).to(tl.float32)
    if CENTERED & FORM:
        x = x - mean
    # Columns beyond the row are zeros, and stay finite: their maximum counts nothing.
    return scale_and_shift(x, rstd, weight, bias, gate, x_ptr.dtype.element_ty, FORM)
