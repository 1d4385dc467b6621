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

    def row_of(self, ptr, row):
        """A row as (elements of a vector, vectors). In 64 bits: batch * hidden may exceed 2^31 elements."""
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

    @cute.jit
    def row_sum(self, value):
        """The sum over the threads that share a row, for every one of them."""
        value = cute.arch.warp_reduction_sum(value, threads_in_group=min(self.threads, WARP))
        if const_expr(self.warps > 1):
            # Every warp reads all partial sums and adds them in the same order, so nobody has to hand the total
            # back: one barrier suffices.
            slots = max(4, 1 << (self.warps - 1).bit_length())
            layout = cute.make_layout((slots, self.rows))
            partials = cutlass.utils.SmemAllocator().allocate_tensor(Float32, layout, byte_alignment=16)
            thread, block_row, _ = cute.arch.thread_idx()
            lane = thread % WARP
            slot = thread // WARP + lane * self.warps  # lanes other than the first zero the slots of absent warps
            if slot < slots:
                partials[slot, block_row] = value if lane == 0 else Float32(0)
            cute.arch.sync_threads()
            four = cute.make_rmem_tensor(4, Float32)
            cute.autovec_copy(cute.local_tile(partials[None, block_row], (4,), (lane % (slots // 4),)), four)
            value = cute.arch.warp_reduction_sum((four[0] + four[1]) + (four[2] + four[3]), threads_in_group=slots // 4)
        return value
