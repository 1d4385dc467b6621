"""Norms of rows on CUDA: one tile of registers for each group of rows."""

import tilelang.language as T

from .norm_form import NormForm
from .norm_tile import (
    NormTile,
    add_residual,
    add_squares,
    add_squares_from_mean,
    add_values,
    divide_by_columns,
    load_again,
    load_columns,
    load_first,
    normalize,
    store_rows,
    store_sum,
)
from .row_plan import Launch


def _sum(terms):
    """Add terms in pairs, and the sums in pairs: three additions, not seven, wait for one another to add eight."""
    half = len(terms) // 2
    return _sum(terms[:half]) + _sum(terms[half:]) if half else terms[0]


def _weighted_sum(terms, weights):
    if len(set(weights)) == 1:
        return _sum(terms) * weights[0]
    return _sum([term * weight for term, weight in zip(terms, weights, strict=True)])


def _square(value):
    return value * value


@T.macro
def _join_warps(tile, squares, shared_squares, mean, shared_mean, total):
    """The row's mean and sum of squares about it, from those of its warps (Chan, Golub and LeVeque 1979)."""
    if tile.warps == 1:
        T.copy(squares, total)
    else:
        T.copy(squares, shared_squares)
        if tile.form.centered:
            T.copy(mean, shared_mean)
        for r, w in T.Parallel(tile.rows, tile.warps):
            if tile.form.centered:
                means = [shared_mean[r, i] for i in range(tile.warps)]
                mean[r, w] = _weighted_sum(means, tile.columns) / tile.hidden
                total[r, w] = _sum([shared_squares[r, i] for i in range(tile.warps)]) + _weighted_sum(
                    [_square(each - mean[r, w]) for each in means], tile.columns
                )
            else:
                total[r, w] = _sum([shared_squares[r, i] for i in range(tile.warps)])


def norm(form: NormForm, hidden: int, dtype: str, column_dtype: str, launch: Launch):
    """Build the program; the batch stays symbolic, so one binary serves every batch of this launch.

    Weight and bias have column_dtype. Tensors that the form does not name are no parameters of the program.
    """
    tile = NormTile(form, hidden, dtype, column_dtype, launch)
    rows, warps, chunks = tile.rows, tile.warps, tile.chunks
    batch = T.dynamic("batch")

    @T.prim_func
    def main(
        x: tile.per_element(batch),
        residual: tile.per_element(batch) if form.adds_residual else None,
        weight: tile.per_column() if form.has_weight else None,
        bias: tile.per_column() if form.has_bias else None,
        eps: T.float32,
        out: tile.per_element(batch),
        new_residual: tile.per_element(batch) if form.adds_residual else None,
    ):
        with T.Kernel(T.ceildiv(batch, rows), threads=tile.threads) as block:
            x_tile = T.alloc_fragment(tile.shape, dtype)
            # Not x_tile: where a thread holds one vector of 8 bytes, TileLang 0.1.15 would store what it read before.
            out_tile = T.alloc_fragment(tile.shape, dtype)
            residual_tile = T.alloc_fragment(tile.shape, dtype) if form.adds_residual else None
            total = T.alloc_fragment(tile.shape, "float32") if form.adds_residual else None
            weight_tile = T.alloc_fragment(tile.shape, column_dtype) if form.has_weight else None
            bias_tile = T.alloc_fragment(tile.shape, column_dtype) if form.has_bias else None
            sums = T.alloc_fragment((rows, warps, tile.span), "float32") if form.centered else None
            mean = T.alloc_fragment((rows, warps), "float32") if form.centered else None
            shared_mean = T.alloc_shared((rows, warps), "float32") if form.centered else None
            squares = T.alloc_fragment((rows, warps, tile.span), "float32")
            warp_sum = T.alloc_fragment((rows, warps), "float32")
            shared_sum = T.alloc_shared((rows, warps), "float32")
            rstd = T.alloc_fragment((rows, warps), "float32")
            if tile.resident_threads:
                T.annotate_min_blocks_per_sm(max(1, tile.resident_threads // tile.threads))
            T.annotate_layout(
                tile.layouts((x_tile, residual_tile, total, weight_tile, bias_tile, out_tile), (sums, squares))
            )

            T.clear(squares)
            if form.centered:
                T.clear(sums)
            for k in T.serial(chunks):
                load_first(tile, x_tile, x, residual_tile, residual, weight_tile, weight, bias_tile, bias, block, k)
                if form.adds_residual:
                    add_residual(tile, total, x_tile, residual_tile)
                    if chunks == 1:
                        store_sum(tile, new_residual, residual_tile, total, block, k)
                if form.centered:
                    add_values(tile, sums, x_tile, total)
                else:
                    add_squares(tile, squares, x_tile, total)
            if form.centered:
                # Squares are taken about the mean of the warp's own columns: so one barrier serves both sums, and no
                # digits cancel.
                T.reduce_sum(sums, mean, dim=2)
                divide_by_columns(tile, mean)
                for k in T.serial(chunks):
                    load_again(tile, x_tile, x, residual_tile, residual, total, block, k)
                    add_squares_from_mean(tile, squares, x_tile, total, mean, k)
            T.reduce_sum(squares, warp_sum, dim=2)

            _join_warps(tile, warp_sum, shared_sum, mean, shared_mean, rstd)
            for r, w in T.Parallel(rows, warps):
                # CUDA's rsqrtf is within 2 ulp of float32, far below one of the output.
                rstd[r, w] = T.rsqrt(rstd[r, w] / hidden + eps)

            for k in T.serial(chunks):
                load_again(tile, x_tile, x, residual_tile, residual, total, block, k)
                if form.adds_residual and chunks > 1:  # only now: it may lie where the residual does
                    store_sum(tile, new_residual, residual_tile, total, block, k)
                if not tile.columns_fit:
                    load_columns(tile, weight_tile, weight, bias_tile, bias, k)
                normalize(tile, out_tile, x_tile, total, mean, rstd, weight_tile, bias_tile)
                store_rows(tile, out, out_tile, block, k)

    return main
