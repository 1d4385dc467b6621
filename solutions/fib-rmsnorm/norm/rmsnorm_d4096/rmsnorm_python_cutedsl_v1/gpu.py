"""The device side of RMSNorm in CuTe DSL: float32 arithmetic, rounded once.

A memory-bound operator is fast when its bytes are requested early, and once. Each thread loads its part of the
row as 16-byte vectors and keeps it in registers until the row's sum is known, so x is read once; the weight is
requested before the reduction and arrives during it.
"""

import cutlass
from cutlass import Float32, const_expr, cute, range_constexpr

from .row_kernel import RowKernel

MAX_WIDE_VECTORS = 4  # of x that a thread keeps in float32 between the sum and the scaling


class RmsNorm(RowKernel):
    """The kernel for one row length, dtype and launch, and any batch."""

    @cute.jit
    def __call__(self, x: cute.Tensor, weight: cute.Tensor, eps: Float32, out: cute.Tensor, stream):
        batch = x.shape[0]
        kernel = self.held_rows if const_expr(self.vectors) else self.long_row
        kernel(x.iterator, weight.iterator, eps, out.iterator, batch).launch(
            grid=[cute.ceil_div(batch, self.rows), 1, 1], block=[self.threads, self.rows, 1], stream=stream
        )

    @cute.kernel
    def held_rows(self, x_ptr: cute.Pointer, weight_ptr: cute.Pointer, eps: Float32, out_ptr: cute.Pointer, batch):
        thread, block_row, _ = cute.arch.thread_idx()
        row = cute.arch.block_idx()[0] * self.rows + block_row
        x_row, out_row = self.row_of(x_ptr, row), self.row_of(out_ptr, row)
        weight_row = self.row_of(weight_ptr, 0)
        x, weight, out = [cute.make_rmem_tensor((self.lanes, self.vectors), self.dtype) for _ in range(3)]

        # Past the last row and beyond the last column: load nothing, but reach the barrier.
        x.fill(0)
        # With one row for each block this is always so. But in code without a branch, ptxas moves the request of
        # weight behind the arithmetic that waits for x.
        if row < batch:
            for i in range_constexpr(self.vectors):
                col = thread + i * self.threads
                if self.is_col(col, i):
                    cute.autovec_copy(x_row[None, col], x[None, i])
            for i in range_constexpr(self.vectors):
                col = thread + i * self.threads
                if self.is_col(col, i):
                    cute.autovec_copy(weight_row[None, col], weight[None, i])

        x_wide = x.load().to(Float32)
        rstd = self.reciprocal_rms(self.sum_of_squares(x_wide), eps)
        if const_expr(self.vectors > 1):  # with one, ptxas would move its request down after all
            self.keep_packed(weight, rstd)
        if const_expr(self.vectors > MAX_WIDE_VECTORS):
            self.keep_packed(x, rstd)
            x_wide = x.load().to(Float32)
        out.store((x_wide * rstd * weight.load().to(Float32)).to(self.dtype))
        if row < batch:
            for i in range_constexpr(self.vectors):
                col = thread + i * self.threads
                if self.is_col(col, i):
                    cute.autovec_copy(out[None, i], out_row[None, col])

    @cute.kernel
    def long_row(self, x_ptr: cute.Pointer, weight_ptr: cute.Pointer, eps: Float32, out_ptr: cute.Pointer, batch):
        thread, row = cute.arch.thread_idx()[0], cute.arch.block_idx()[0]
        x_row, out_row = self.row_of(x_ptr, row), self.row_of(out_ptr, row)
        weight_row = self.row_of(weight_ptr, 0)
        x, weight, out = [cute.make_rmem_tensor(self.lanes, self.dtype) for _ in range(3)]

        squares = Float32(0)
        for col in cutlass.range(thread, self.vectors_per_row, self.threads, unroll=4):
            cute.autovec_copy(x_row[None, col], x)
            x_wide = x.load().to(Float32)
            squares += self.sum_of_squares(x_wide)
        rstd = self.reciprocal_rms(squares, eps)
        for col in cutlass.range(thread, self.vectors_per_row, self.threads, unroll=4):
            cute.autovec_copy(x_row[None, col], x)
            cute.autovec_copy(weight_row[None, col], weight)
            out.store((x.load().to(Float32) * rstd * weight.load().to(Float32)).to(self.dtype))
            cute.autovec_copy(out, out_row[None, col])

    def sum_of_squares(self, x):
        """Of a thread's own values. Four chains of sums, since each link waits for the one before."""
        chains = [Float32(0)] * 4
        for i in range(cute.size(x.shape)):
            chains[i % 4] += x[i] * x[i]
        return (chains[0] + chains[1]) + (chains[2] + chains[3])

    @cute.jit
    def reciprocal_rms(self, squares, eps):
        # The hardware's reciprocal root is within 2 ulp of float32, far below one of a 16-bit output.
        return cute.math.rsqrt(self.row_sum(squares) * (1.0 / self.hidden) + eps)
