"""A group of rows in registers, as a tile of TileLang: how it is spread over a block, read, summed up and written."""

import tilelang.language as T

from .norm_form import NormForm
from .row_plan import WARP, Launch

REGISTER_FILE = 65536
# How many threads are to fit a multiprocessor, by the vectors that one holds of all tiles. 512 rows of 8192 (x and
# weight: eight vectors) fit an H200 at once only if 64 registers suffice. Left alone, nvcc gives LayerNorm 52 for four.
MAX_TIGHT_VECTORS = 4
RESIDENT_THREADS = {8: 1024}
RESIDENT_THREADS_CENTERED = {4: 1536, 6: 1280, 8: 1024}


class NormTile:
    """The compile-time facts of a program."""

    def __init__(self, form: NormForm, hidden: int, dtype: str, column_dtype: str, launch: Launch) -> None:
        self.form, self.hidden, self.dtype, self.column_dtype = form, hidden, dtype, column_dtype
        self.rows, self.warps, self.vectors, self.lanes, self.chunks = launch
        self.span = WARP * self.lanes  # columns that a warp reads at once
        self.threads = self.rows * self.warps * WARP
        self.shape = (self.rows, self.warps, self.vectors, self.span)
        # Warps take spans of a row in turn. How many columns each holds:
        self.turns, self.rest = divmod(hidden, self.warps * self.span)
        self.columns = [
            self.turns * self.span + min(max(self.rest - w * self.span, 0), self.span) for w in range(self.warps)
        ]
        column_tiles = (form.has_weight + form.has_bias) * (1 if column_dtype == dtype else 2)  # of the size of x's
        tiles = 1 + form.adds_residual + column_tiles
        # Registers for all tiles together, with room left for the arithmetic.
        self.columns_fit = self.chunks == 1 and self.threads * (tiles * 4 * self.vectors + 32) <= REGISTER_FILE
        resident = RESIDENT_THREADS_CENTERED if form.centered else RESIDENT_THREADS
        is_tight = self.chunks == 1 and self.vectors <= MAX_TIGHT_VECTORS
        self.resident_threads = resident.get(tiles * self.vectors) if is_tight else None

    def per_element(self, batch):
        return T.Tensor((batch, self.hidden), self.dtype)

    def per_column(self):
        return T.Tensor((self.hidden,), self.column_dtype)

    def layouts(self, tiles, slices):
        """Neighbouring lanes hold neighbouring vectors, and a warp holds columns of one row only.

        So accesses coalesce, and the first reduction never leaves the warp.
        """
        lanes = self.lanes

        def thread(r, w, c):
            return (r * self.warps + w) * WARP + c // lanes

        tile = T.Fragment(self.shape, lambda r, w, v, c: (thread(r, w, c), v * lanes + c % lanes))
        tile_slice = T.Fragment((self.rows, self.warps, self.span), lambda r, w, c: (thread(r, w, c), c % lanes))
        given = [(each, tile) for each in tiles] + [(each, tile_slice) for each in slices]
        return {each: layout for each, layout in given if each is not None}

    def col(self, k, w, v, c):
        return ((k * self.vectors + v) * self.warps + w) * self.span + c

    def is_col(self, k, w, v, c):
        is_full = self.hidden % (self.span * self.warps * self.vectors * self.chunks) == 0
        return True if is_full else self.col(k, w, v, c) < self.hidden

    def own_columns(self, w):
        """As columns, for any warp: what its sum is divided by, so at least one."""
        own_rest = T.min(T.max(self.rest - w * self.span, 0 if self.turns else 1), self.span) if self.rest else 0
        return T.cast(self.turns * self.span + own_rest, "float32")

    def wide(self, x_tile, total, index):
        return total[index] if self.form.adds_residual else T.cast(x_tile[index], "float32")

    def from_mean(self, value, mean, r, w):
        return value - mean[r, w] if self.form.centered else value

    def add(self, x, residual):
        total = T.cast(x, "float32") + T.cast(residual, "float32")
        return T.cast(T.cast(total, self.dtype), "float32") if self.form.rounds_sum else total

    def finish(self, value, weight_tile, bias_tile, index):
        """What follows the multiplication by rstd. Returns it in the dtype of x."""
        form = self.form
        if form.rounds_before_weight:
            value = T.cast(T.cast(value, self.dtype), "float32")
        if form.has_weight:
            weight = T.cast(weight_tile[index], "float32")
            value = value * (weight + form.weight_offset if form.weight_offset else weight)
        if form.has_bias:
            value = value + T.cast(bias_tile[index], "float32")
        return T.cast(value, self.dtype)


# TileLang guards every access that may leave its tensor (the last rows, the
# columns beyond hidden): a read gives 0, a write is dropped.


@T.macro
def load_rows(tile, into, tensor, block, k):
    for r, w, v, c in T.Parallel(*tile.shape):
        into[r, w, v, c] = tensor[block * tile.rows + r, tile.col(k, w, v, c)]


@T.macro
def store_rows(tile, tensor, source, block, k):
    for r, w, v, c in T.Parallel(*tile.shape):
        tensor[block * tile.rows + r, tile.col(k, w, v, c)] = source[r, w, v, c]


@T.macro
def load_columns(tile, weight_tile, weight, bias_tile, bias, k):
    if tile.form.has_weight:
        for r, w, v, c in T.Parallel(*tile.shape):
            weight_tile[r, w, v, c] = weight[tile.col(k, w, v, c)]
    if tile.form.has_bias:
        for r, w, v, c in T.Parallel(*tile.shape):
            bias_tile[r, w, v, c] = bias[tile.col(k, w, v, c)]


@T.macro
def load_first(tile, x_tile, x, residual_tile, residual, weight_tile, weight, bias_tile, bias, block, k):
    """Request all that fits before anything waits: weight and bias arrive during the reduction."""
    load_rows(tile, x_tile, x, block, k)
    if tile.form.adds_residual:
        load_rows(tile, residual_tile, residual, block, k)
    if tile.columns_fit:
        load_columns(tile, weight_tile, weight, bias_tile, bias, 0)


@T.macro
def add_residual(tile, total, x_tile, residual_tile):
    for r, w, v, c in T.Parallel(*tile.shape):
        total[r, w, v, c] = tile.add(x_tile[r, w, v, c], residual_tile[r, w, v, c])


@T.macro
def store_sum(tile, new_residual, residual_tile, total, block, k):
    for r, w, v, c in T.Parallel(*tile.shape):
        residual_tile[r, w, v, c] = T.cast(total[r, w, v, c], tile.dtype)
    store_rows(tile, new_residual, residual_tile, block, k)


@T.macro
def load_again(tile, x_tile, x, residual_tile, residual, total, block, k):
    """For a row that does not fit the registers."""
    if tile.chunks > 1:
        load_rows(tile, x_tile, x, block, k)
        if tile.form.adds_residual:
            load_rows(tile, residual_tile, residual, block, k)
            add_residual(tile, total, x_tile, residual_tile)


@T.macro
def add_values(tile, sums, x_tile, total):
    for v in T.unroll(tile.vectors):
        for r, w, c in T.Parallel(tile.rows, tile.warps, tile.span):
            sums[r, w, c] += tile.wide(x_tile, total, (r, w, v, c))


@T.macro
def add_squares(tile, squares, x_tile, total):
    for v in T.unroll(tile.vectors):
        for r, w, c in T.Parallel(tile.rows, tile.warps, tile.span):
            value = tile.wide(x_tile, total, (r, w, v, c))
            squares[r, w, c] += value * value


@T.macro
def add_squares_from_mean(tile, squares, x_tile, total, mean, k):
    for v in T.unroll(tile.vectors):
        for r, w, c in T.Parallel(tile.rows, tile.warps, tile.span):
            if tile.is_col(k, w, v, c):
                deviation = tile.wide(x_tile, total, (r, w, v, c)) - mean[r, w]
                squares[r, w, c] += deviation * deviation


@T.macro
def divide_by_columns(tile, mean):
    for r, w in T.Parallel(tile.rows, tile.warps):
        mean[r, w] = mean[r, w] / tile.own_columns(w)


@T.macro
def normalize(tile, out_tile, x_tile, total, mean, rstd, weight_tile, bias_tile):
    for r, w, v, c in T.Parallel(*tile.shape):
        out_tile[r, w, v, c] = tile.finish(
            tile.from_mean(tile.wide(x_tile, total, (r, w, v, c)), mean, r, w) * rstd[r, w],
            weight_tile,
            bias_tile,
            (r, w, v, c),
        )
