"""What kernels of rows in CuTe DSL have in common: how a row lies in memory, and its sum."""

import math

import cutlass
from cutlass import Float32, Int64, Uint32, const_expr, cute

from .row_launch import VECTOR_BYTES, WARP


class RowKernel:
    """For one row length, dtype and launch, and any batch."""

    def __init__(self, hidden, dtype, launch):
        self.hidden = hidden
        self.dtype = dtype
        self.threads, self.rows, self.vectors = launch
        self.lanes = VECTOR_BYTES * 8 // dtype.width  # elements of a vector
        self.vectors_per_row = hidden // self.lanes
        self.warps = math.ceil(self.threads / WARP)  # that share a row
        self.slots = max(4, 1 << (self.warps - 1).bit_length())  # for a value of each warp, read four at a time

    def row_of(self, ptr, row):
        """A row as (elements of a vector, vectors). In 64 bits: batch * hidden may exceed 2^31 elements."""
        if ptr is None:
            return None
        return cute.make_tensor(
            (ptr + Int64(row) * self.hidden).align(VECTOR_BYTES), cute.make_layout((self.lanes, self.vectors_per_row))
        )

    def is_col(self, col, i):
        return True if (i + 1) * self.threads <= self.vectors_per_row else col < self.vectors_per_row

    def keep_packed(self, tensor, rstd):
        """Keep values from being widened before rstd is known: that takes twice the registers, and waits for weight.

        The sign bit of rstd is always 0, which the compiler cannot know.
        """
        words = cute.recast_tensor(tensor, Uint32)
        sign = rstd.bitcast(Uint32) >> 31
        for i in range(cute.size(words)):
            words[i] = words[i] ^ sign

    def values_of(self, vector):
        return [vector[i] for i in range(cute.size(vector.shape))]

    def sum_of_squares(self, values):
        return self.sum_of([value * value for value in values])

    def sum_of(self, terms):
        """Of a thread's own values. Four chains of sums, since each link waits for the one before."""
        chains = [Float32(0)] * 4
        for i, term in enumerate(terms):
            chains[i % 4] += term
        return (chains[0] + chains[1]) + (chains[2] + chains[3])

    @cute.jit
    def row_sum(self, value):
        """The sum over the threads that share a row, for every one of them."""
        value = self.warp_sum(value)
        if const_expr(self.warps > 1):
            # Every warp reads all partial sums and adds them in the same order, so nobody has to hand the total
            # back: one barrier suffices.
            (four,) = self.exchange([value])
            value = self.sum_of_slots((four[0] + four[1]) + (four[2] + four[3]))
        return value

    @cute.jit
    def row_moments(self, mean, squares, thread):
        """The mean of a row, and the sum of squares about it, from each warp's mean and a thread's squares about that.

        So one barrier suffices as for a sum, and no digits cancel (Chan, Golub and LeVeque 1979).
        """
        squares = self.warp_sum(squares)
        if const_expr(self.warps > 1):
            columns, means, inner = self.exchange([self.own_columns(thread), mean, squares])
            sums = [columns[i] * means[i] for i in range(4)]
            mean = self.sum_of_slots((sums[0] + sums[1]) + (sums[2] + sums[3])) * (1.0 / self.hidden)
            between = [means[i] - mean for i in range(4)]
            parts = [inner[i] + columns[i] * between[i] * between[i] for i in range(4)]
            squares = self.sum_of_slots((parts[0] + parts[1]) + (parts[2] + parts[3]))
        return mean, squares

    def own_mean(self, value, thread):
        """The mean of a warp's own columns. Each warp of a launch has some."""
        return self.warp_sum(value) / self.own_columns(thread)

    def own_columns(self, thread):
        """How many columns of the row a warp holds."""
        turns, rest = divmod(self.vectors_per_row, self.threads)
        if self.warps == 1:
            return Float32(self.hidden)
        if rest == 0:
            return Float32(turns * WARP * self.lanes)
        own_rest = cutlass.min(cutlass.max(rest - thread // WARP * WARP, 0), WARP)
        return Float32((turns * WARP + own_rest) * self.lanes)

    def warp_sum(self, value):
        return cute.arch.warp_reduction_sum(value, threads_in_group=min(self.threads, WARP))

    def sum_of_slots(self, value):
        """Of what the lanes of a warp took from the slots, for every one of them."""
        return cute.arch.warp_reduction_sum(value, threads_in_group=self.slots // 4)

    @cute.jit
    def exchange(self, values):
        """Show each warp's values to all warps that share the row. A lane takes four warps' of each, or zeros."""
        layout = cute.make_layout((self.slots, self.rows))
        smem = cutlass.utils.SmemAllocator()
        partials = [smem.allocate_tensor(Float32, layout, byte_alignment=16) for _ in values]
        thread, block_row, _ = cute.arch.thread_idx()
        lane = thread % WARP
        slot = thread // WARP + lane * self.warps  # lanes other than the first zero the slots of absent warps
        if slot < self.slots:
            for partial, value in zip(partials, values, strict=True):
                partial[slot, block_row] = value if lane == 0 else Float32(0)
        cute.arch.sync_threads()
        fours = [cute.make_rmem_tensor(4, Float32) for _ in values]
        for partial, four in zip(partials, fours, strict=True):
            cute.autovec_copy(cute.local_tile(partial[None, block_row], (4,), (lane % (self.slots // 4),)), four)
        return fours
