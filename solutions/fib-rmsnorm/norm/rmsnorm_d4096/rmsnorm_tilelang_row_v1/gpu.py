"""RMSNorm on CUDA: one tile of registers for each group of rows."""

import tilelang.language as T

from .row_plan import WARP, Launch

REGISTER_FILE = 65536
# Rows of 8192 take four vectors a thread, and 512 of them fit an H200 at once only if 64 registers suffice.
TIGHT_VECTORS = 4
TIGHT_THREADS = 1024  # of a multiprocessor


def _sum(terms):
    """Add terms in pairs, and the sums in pairs: three additions, not seven, wait for one another to add eight."""
    half = len(terms) // 2
    return _sum(terms[:half]) + _sum(terms[half:]) if half else terms[0]


def rmsnorm(hidden: int, dtype: str, launch: Launch):
    """Build the program; the batch stays symbolic, so one binary serves every batch of this launch."""
    rows, warps, vectors, lanes, chunks = launch
    span = WARP * lanes  # columns that a warp reads at once
    threads = rows * warps * WARP
    # Registers for x and weight together, with room left for the arithmetic.
    weight_fits = chunks == 1 and threads * (2 * 4 * vectors + 32) <= REGISTER_FILE
    batch = T.dynamic("batch")

    # Neighbouring lanes hold neighbouring vectors, and a warp holds columns of one
    # row only: accesses coalesce, and the first reduction never leaves the warp.
    def thread(r, w, c):
        return (r * warps + w) * WARP + c // lanes

    tile = T.Fragment((rows, warps, vectors, span), lambda r, w, v, c: (thread(r, w, c), v * lanes + c % lanes))
    tile_slice = T.Fragment((rows, warps, span), lambda r, w, c: (thread(r, w, c), c % lanes))

    @T.prim_func
    def main(
        x: T.Tensor((batch, hidden), dtype),
        weight: T.Tensor((hidden,), dtype),
        eps: T.float32,
        out: T.Tensor((batch, hidden), dtype),
    ):
        # TileLang guards every access that may leave its tensor (the last rows, the
        # columns beyond hidden): a read gives 0, a write is dropped.
        with T.Kernel(T.ceildiv(batch, rows), threads=threads) as block:
            x_tile = T.alloc_fragment((rows, warps, vectors, span), dtype)
            weight_tile = T.alloc_fragment((rows, warps, vectors, span), dtype)
            squares = T.alloc_fragment((rows, warps, span), "float32")
            warp_sum = T.alloc_fragment((rows, warps), "float32")
            shared_sum = T.alloc_shared((rows, warps), "float32")
            rstd = T.alloc_fragment((rows, warps), "float32")
            if chunks == 1 and vectors == TIGHT_VECTORS:
                T.annotate_min_blocks_per_sm(max(1, TIGHT_THREADS // threads))
            T.annotate_layout({x_tile: tile, weight_tile: tile, squares: tile_slice})

            T.clear(squares)
            for k in T.serial(chunks):
                for r, w, v, c in T.Parallel(rows, warps, vectors, span):
                    x_tile[r, w, v, c] = x[block * rows + r, ((k * vectors + v) * warps + w) * span + c]
                if weight_fits:  # its load overlaps the reduction
                    for r, w, v, c in T.Parallel(rows, warps, vectors, span):
                        weight_tile[r, w, v, c] = weight[(v * warps + w) * span + c]
                for v in T.unroll(vectors):
                    for r, w, c in T.Parallel(rows, warps, span):
                        value = T.cast(x_tile[r, w, v, c], "float32")
                        squares[r, w, c] += value * value
            T.reduce_sum(squares, warp_sum, dim=2)

            if warps == 1:
                T.copy(warp_sum, rstd)
            else:
                T.copy(warp_sum, shared_sum)
                for r, w in T.Parallel(rows, warps):
                    rstd[r, w] = _sum([shared_sum[r, i] for i in range(warps)])
            for r, w in T.Parallel(rows, warps):
                # CUDA's rsqrtf is within 2 ulp of float32, far below one of the output.
                rstd[r, w] = T.rsqrt(rstd[r, w] / hidden + eps)

            for k in T.serial(chunks):
                if chunks > 1:
                    for r, w, v, c in T.Parallel(rows, warps, vectors, span):
                        x_tile[r, w, v, c] = x[block * rows + r, ((k * vectors + v) * warps + w) * span + c]
                if not weight_fits:
                    for r, w, v, c in T.Parallel(rows, warps, vectors, span):
                        weight_tile[r, w, v, c] = weight[((k * vectors + v) * warps + w) * span + c]
                for r, w, v, c in T.Parallel(rows, warps, vectors, span):
                    x_tile[r, w, v, c] = T.cast(
                        T.cast(x_tile[r, w, v, c], "float32") * rstd[r, w] * T.cast(weight_tile[r, w, v, c], "float32"),
                        dtype,
                    )
                for r, w, v, c in T.Parallel(rows, warps, vectors, span):
                    out[block * rows + r, ((k * vectors + v) * warps + w) * span + c] = x_tile[r, w, v, c]

    return main
