"""Norms of rows on CPU: TileLang's C target, written so that the C compiler vectorises every loop."""

import tilelang.language as T

from .c_floats import STORAGE
from .norm_form import NormForm

LANES = 128  # independent partial sums: they fill the vector units and keep chains of rounding short


def norm(form: NormForm, hidden: int, dtype: str, column_dtype: str):
    """Build the program for any number of rows.

    Weight and bias have column_dtype. Tensors that the form does not name are no parameters of the program.
    """
    storage, load, store = STORAGE[dtype]
    column_storage, load_column, _ = STORAGE[column_dtype]
    batch = T.dynamic("batch")

    def per_element():
        return T.Tensor((batch, hidden), storage)

    def per_column():
        return T.Tensor((hidden,), column_storage)

    def finish(x_row, rstd, scale, shift, c):
        value = x_row[c] if form.rounds_before_weight else x_row[c] * rstd[0]
        value = value * scale[c] if form.has_weight else value
        return value + shift[c] if form.has_bias else value

    @T.macro
    def add_lanes(sums, quarter, total):
        for i in T.serial(LANES // 4):
            quarter[i] = (sums[i] + sums[i + 32]) + (sums[i + 64] + sums[i + 96])
        T.reduce_sum(quarter, total, dim=0)

    @T.prim_func
    def main(
        x: per_element,
        residual: per_element if form.adds_residual else None,
        weight: per_column if form.has_weight else None,
        bias: per_column if form.has_bias else None,
        eps: T.float32,
        out: per_element,
        new_residual: per_element if form.adds_residual else None,
    ):
        with T.Kernel(1):
            scale = T.alloc_local((hidden,), "float32") if form.has_weight else None
            shift = T.alloc_local((hidden,), "float32") if form.has_bias else None
            x_row = T.alloc_local((hidden,), "float32")
            sums = T.alloc_local((LANES,), "float32")
            quarter = T.alloc_local((LANES // 4,), "float32")
            mean = T.alloc_local((1,), "float32") if form.centered else None
            rstd = T.alloc_local((1,), "float32")
            rounded = T.alloc_local((hidden,), storage) if form.rounds_before_weight else None
            if form.has_weight:
                for c in T.serial(hidden):
                    scale[c] = load_column(weight[c])
                if form.weight_offset:
                    for c in T.serial(hidden):
                        scale[c] += form.weight_offset
            if form.has_bias:
                for c in T.serial(hidden):
                    shift[c] = load_column(bias[c])
            for row in T.serial(batch):
                for c in T.serial(hidden):
                    x_row[c] = load(x[row, c])
                if form.adds_residual:
                    for c in T.serial(hidden):
                        x_row[c] += load(residual[row, c])
                    for c in T.serial(hidden):
                        new_residual[row, c] = store(x_row[c])
                    if form.rounds_sum:
                        for c in T.serial(hidden):
                            x_row[c] = load(new_residual[row, c])
                if form.centered:
                    T.clear(sums)
                    for k, lane in T.grid(hidden // LANES, LANES):
                        sums[lane] += x_row[k * LANES + lane]
                    add_lanes(sums, quarter, mean)
                    for c in T.serial(hidden):
                        x_row[c] -= mean[0] / hidden
                T.clear(sums)
                for k, lane in T.grid(hidden // LANES, LANES):
                    sums[lane] += x_row[k * LANES + lane] * x_row[k * LANES + lane]
                add_lanes(sums, quarter, rstd)
                rstd[0] = 1.0 / T.sqrt(rstd[0] / hidden + eps)
                if form.rounds_before_weight:
                    for c in T.serial(hidden):  # in steps: nested, the conversions take TileLang seconds to simplify
                        rounded[c] = store(x_row[c] * rstd[0])
                    for c in T.serial(hidden):
                        x_row[c] = load(rounded[c])
                for c in T.serial(hidden):
                    out[row, c] = store(finish(x_row, rstd, scale, shift, c))

    return main
