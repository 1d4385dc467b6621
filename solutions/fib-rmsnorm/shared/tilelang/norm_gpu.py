"""Norms of rows on CUDA: one tile of registers for each group of rows."""

import tilelang.language as T

from .norm_form import NormForm
from .row_plan import WARP, Launch

REGISTER_FILE = 65536
# How many threads are to fit a multiprocessor, by the vectors that one holds of all tiles. 512 rows of 8192 (x and
# weight: eight vectors) fit an H200 at once only if 64 registers suffice. Left alone, nvcc gives LayerNorm 52 for four.
MAX_TIGHT_VECTORS = 4
RESIDENT_THREADS = {8: 1024}
RESIDENT_THREADS_CENTERED = {4: 1536, 6: 1280, 8: 1024}


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


def _finish(form, value, weight_tile, bias_tile, index, dtype):
    """What follows the multiplication by rstd. Returns it in dtype."""
    if form.rounds_before_weight:
        value = T.cast(T.cast(value, dtype), "float32")
    if form.has_weight:
        weight = T.cast(weight_tile[index], "float32")
        value = value * (weight + form.weight_offset if form.weight_offset else weight)
    if form.has_bias:
        value = value + T.cast(bias_tile[index], "float32")
    return T.cast(value, dtype)


def norm(form: NormForm, hidden: int, dtype: str, column_dtype: str, launch: Launch):
    """Build the program; the batch stays symbolic, so one binary serves every batch of this launch.

    Weight and bias have column_dtype. Tensors that the form does not name are no parameters of the program.
    """
    rows, warps, vectors, lanes, chunks = launch
    span = WARP * lanes  # columns that a warp reads at once
    threads = rows * warps * WARP
    ragged = hidden % (span * warps * vectors * chunks) != 0
    # Warps take spans of a row in turn. How many columns each holds:
    turns, rest = divmod(hidden, warps * span)
    columns = [turns * span + min(max(rest - w * span, 0), span) for w in range(warps)]
    column_tiles = (form.has_weight + form.has_bias) * (1 if column_dtype == dtype else 2)  # of the size of x's
    tiles = 1 + form.adds_residual + column_tiles
    # Registers for all tiles together, with room left for the arithmetic.
    columns_fit = chunks == 1 and threads * (tiles * 4 * vectors + 32) <= REGISTER_FILE
    resident = RESIDENT_THREADS_CENTERED if form.centered else RESIDENT_THREADS
    resident_threads = resident.get(tiles * vectors) if chunks == 1 and vectors <= MAX_TIGHT_VECTORS else None
    batch = T.dynamic("batch")

    def per_element():
        return T.Tensor((batch, hidden), dtype)

    def per_column():
        return T.Tensor((hidden,), column_dtype)

    # Neighbouring lanes hold neighbouring vectors, and a warp holds columns of one
    # row only: accesses coalesce, and the first reduction never leaves the warp.
    def thread(r, w, c):
        return (r * warps + w) * WARP + c // lanes

    tile = T.Fragment((rows, warps, vectors, span), lambda r, w, v, c: (thread(r, w, c), v * lanes + c % lanes))
    tile_slice = T.Fragment((rows, warps, span), lambda r, w, c: (thread(r, w, c), c % lanes))

    def layouts(tiles, slices):
        return {each: tile for each in tiles if each is not None} | {
            each: tile_slice for each in slices if each is not None
        }

    def wide(x_tile, total, index):
        return total[index] if form.adds_residual else T.cast(x_tile[index], "float32")

    def own_columns(w):
        """As columns, for any warp: what its sum is divided by, so at least one."""
        own_rest = T.min(T.max(rest - w * span, 0 if turns else 1), span) if rest else 0
        return T.cast(turns * span + own_rest, "float32")

    def from_mean(value, mean, r, w):
        return value - mean[r, w] if form.centered else value

    def is_column(k, v, w, c):
        return ((k * vectors + v) * warps + w) * span + c < hidden if ragged else True

    @T.macro
    def load_rows(into, tensor, block, k):
        for r, w, v, c in T.Parallel(rows, warps, vectors, span):
            into[r, w, v, c] = tensor[block * rows + r, ((k * vectors + v) * warps + w) * span + c]

    @T.macro
    def load_columns(into, tensor, k):
        for r, w, v, c in T.Parallel(rows, warps, vectors, span):
            into[r, w, v, c] = tensor[((k * vectors + v) * warps + w) * span + c]

    @T.macro
    def store_rows(tensor, source, block, k):
        for r, w, v, c in T.Parallel(rows, warps, vectors, span):
            tensor[block * rows + r, ((k * vectors + v) * warps + w) * span + c] = source[r, w, v, c]

    def added(x, residual):
        total = T.cast(x, "float32") + T.cast(residual, "float32")
        return T.cast(T.cast(total, dtype), "float32") if form.rounds_sum else total

    @T.macro
    def add(total, x_tile, residual_tile):
        for r, w, v, c in T.Parallel(rows, warps, vectors, span):
            total[r, w, v, c] = added(x_tile[r, w, v, c], residual_tile[r, w, v, c])

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
        # TileLang guards every access that may leave its tensor (the last rows, the
        # columns beyond hidden): a read gives 0, a write is dropped.
        with T.Kernel(T.ceildiv(batch, rows), threads=threads) as block:
            shape = (rows, warps, vectors, span)
            x_tile = T.alloc_fragment(shape, dtype)
            residual_tile = T.alloc_fragment(shape, dtype) if form.adds_residual else None
            total = T.alloc_fragment(shape, "float32") if form.adds_residual else None
            weight_tile = T.alloc_fragment(shape, column_dtype) if form.has_weight else None
            bias_tile = T.alloc_fragment(shape, column_dtype) if form.has_bias else None
            sums = T.alloc_fragment((rows, warps, span), "float32") if form.centered else None
            mean = T.alloc_fragment((rows, warps), "float32") if form.centered else None
            shared_mean = T.alloc_shared((rows, warps), "float32") if form.centered else None
            squares = T.alloc_fragment((rows, warps, span), "float32")
            warp_sum = T.alloc_fragment((rows, warps), "float32")
            shared_sum = T.alloc_shared((rows, warps), "float32")
            rstd = T.alloc_fragment((rows, warps), "float32")
            if resident_threads:
                T.annotate_min_blocks_per_sm(max(1, resident_threads // threads))
            T.annotate_layout(layouts((x_tile, residual_tile, total, weight_tile, bias_tile), (sums, squares)))

            T.clear(squares)
            if form.centered:
                T.clear(sums)
            for k in T.serial(chunks):
                load_rows(x_tile, x, block, k)
                if form.adds_residual:
                    load_rows(residual_tile, residual, block, k)
                if columns_fit and form.has_weight:  # its load overlaps the reduction
                    load_columns(weight_tile, weight, 0)
                if columns_fit and form.has_bias:
                    load_columns(bias_tile, bias, 0)
                if form.adds_residual:
                    add(total, x_tile, residual_tile)
                    for r, w, v, c in T.Parallel(rows, warps, vectors, span):
                        residual_tile[r, w, v, c] = T.cast(total[r, w, v, c], dtype)
                    store_rows(new_residual, residual_tile, block, k)
                for v in T.unroll(vectors):
                    for r, w, c in T.Parallel(rows, warps, span):
                        value = wide(x_tile, total, (r, w, v, c))
                        if form.centered:
                            sums[r, w, c] += value
                        else:
                            squares[r, w, c] += value * value
            if form.centered:
                # Squares are taken about the mean of the warp's own columns: so one barrier serves both sums, and no
                # digits cancel.
                T.reduce_sum(sums, mean, dim=2)
                for r, w in T.Parallel(rows, warps):
                    mean[r, w] = mean[r, w] / own_columns(w)
                for k in T.serial(chunks):
                    if chunks > 1:
                        load_rows(x_tile, x, block, k)
                        if form.adds_residual:
                            load_rows(residual_tile, residual, block, k)
                            add(total, x_tile, residual_tile)
                    for v in T.unroll(vectors):
                        for r, w, c in T.Parallel(rows, warps, span):
                            if is_column(k, v, w, c):
                                deviation = from_mean(wide(x_tile, total, (r, w, v, c)), mean, r, w)
                                squares[r, w, c] += deviation * deviation
            T.reduce_sum(squares, warp_sum, dim=2)

            if warps == 1:
                T.copy(warp_sum, rstd)
            else:
                T.copy(warp_sum, shared_sum)
                if form.centered:
                    T.copy(mean, shared_mean)
                for r, w in T.Parallel(rows, warps):
                    if form.centered:
                        means = [shared_mean[r, i] for i in range(warps)]
                        mean[r, w] = _weighted_sum(means, columns) / hidden
                        rstd[r, w] = _sum([shared_sum[r, i] for i in range(warps)]) + _weighted_sum(
                            [_square(each - mean[r, w]) for each in means], columns
                        )
                    else:
                        rstd[r, w] = _sum([shared_sum[r, i] for i in range(warps)])
            for r, w in T.Parallel(rows, warps):
                # CUDA's rsqrtf is within 2 ulp of float32, far below one of the output.
                rstd[r, w] = T.rsqrt(rstd[r, w] / hidden + eps)

            for k in T.serial(chunks):
                if chunks > 1:
                    load_rows(x_tile, x, block, k)
                    if form.adds_residual:
                        load_rows(residual_tile, residual, block, k)
                        add(total, x_tile, residual_tile)
                if not columns_fit and form.has_weight:
                    load_columns(weight_tile, weight, k)
                if not columns_fit and form.has_bias:
                    load_columns(bias_tile, bias, k)
                for r, w, v, c in T.Parallel(rows, warps, vectors, span):
                    x_tile[r, w, v, c] = _finish(
                        form,
                        from_mean(wide(x_tile, total, (r, w, v, c)), mean, r, w) * rstd[r, w],
                        weight_tile,
                        bias_tile,
                        (r, w, v, c),
                        dtype,
                    )
                store_rows(out, x_tile, block, k)

    return main
