"""The device side of the norms in CuTe DSL: float32 arithmetic, rounded once.

A memory-bound operator is fast when its bytes are requested early, and once. Each thread loads its part of the
row as 16-byte vectors and keeps it in registers until the row's sum is known, so x is read once; the weight is
requested before the reduction and arrives during it.
"""

import cutlass
from cutlass import Float32, const_expr, cute, range_constexpr

from .row_kernel import RowKernel

MAX_WIDE_VECTORS = 4  # of x that a thread keeps in float32 between the sum and the scaling


def pointer_to(tensor):
    return None if tensor is None else tensor.iterator


class NormKernel(RowKernel):
    """The kernel for one form, row length, dtypes and launch, and any batch. Tensors that the form lacks are None."""

    def __init__(self, form, hidden, dtype, column_dtype, launch):
        super().__init__(hidden, dtype, launch)
        self.form = form
        self.column_dtype = column_dtype  # of weight and bias

    @cute.jit
    def __call__(
        self,
        x: cute.Tensor,
        residual: cute.Tensor | None,
        weight: cute.Tensor | None,
        bias: cute.Tensor | None,
        eps: Float32,
        out: cute.Tensor,
        new_residual: cute.Tensor | None,
        stream,
    ):
        batch = x.shape[0]
        kernel = self.held_rows if const_expr(self.vectors) else self.long_row
        kernel(
            x.iterator,
            pointer_to(residual),
            pointer_to(weight),
            pointer_to(bias),
            eps,
            out.iterator,
            pointer_to(new_residual),
            batch,
        ).launch(grid=[cute.ceil_div(batch, self.rows), 1, 1], block=[self.threads, self.rows, 1], stream=stream)

    @cute.kernel
    def held_rows(
        self,
        x_ptr: cute.Pointer,
        residual_ptr: cute.Pointer | None,
        weight_ptr: cute.Pointer | None,
        bias_ptr: cute.Pointer | None,
        eps: Float32,
        out_ptr: cute.Pointer,
        new_residual_ptr: cute.Pointer | None,
        batch,
    ):
        form = self.form
        thread, block_row, _ = cute.arch.thread_idx()
        row = cute.arch.block_idx()[0] * self.rows + block_row
        x_row, out_row = self.row_of(x_ptr, row), self.row_of(out_ptr, row)
        residual_row, new_residual_row = self.row_of(residual_ptr, row), self.row_of(new_residual_ptr, row)
        weight_row, bias_row = self.row_of(weight_ptr, 0), self.row_of(bias_ptr, 0)
        x, weight, out, residual, bias = self.registers((self.lanes, self.vectors))
        sources = [
            (source, registers)
            for source, registers in ((x_row, x), (residual_row, residual), (weight_row, weight), (bias_row, bias))
            if source is not None
        ]

        # Past the last row and beyond the last column: load nothing, but reach the barrier.
        x.fill(0)
        if const_expr(form.adds_residual):
            residual.fill(0)
        # With one row for each block this is always so. But in code without a branch, ptxas moves the request of
        # weight behind the arithmetic that waits for x.
        if row < batch:
            for source, registers in sources:
                for i in range_constexpr(self.vectors):
                    col = thread + i * self.threads
                    if self.is_col(col, i):
                        cute.autovec_copy(source[None, col], registers[None, i])

        x_wide = self.widen(x, residual)
        if const_expr(form.adds_residual):
            out.store(x_wide.to(self.dtype))
            if row < batch:
                for i in range_constexpr(self.vectors):
                    col = thread + i * self.threads
                    if self.is_col(col, i):
                        cute.autovec_copy(out[None, i], new_residual_row[None, col])
        if const_expr(form.centered):
            own_mean = self.own_mean(self.sum_of(self.values_of(x_wide)), thread)
            squares = self.sum_of_squares(self.deviations(x_wide, own_mean, thread))
            mean, squares = self.row_moments(own_mean, squares, thread)
        else:
            mean, squares = None, self.row_sum(self.sum_of_squares(self.values_of(x_wide)))
        rstd = self.reciprocal_root(squares, eps)
        if const_expr(self.vectors > 1):  # with one, ptxas would move its request down after all
            if const_expr(form.has_weight):
                self.keep_packed(weight, rstd)
            if const_expr(form.has_bias):
                self.keep_packed(bias, rstd)
        if const_expr(self.vectors > MAX_WIDE_VECTORS):
            self.keep_packed(x, rstd)
            if const_expr(form.adds_residual):
                self.keep_packed(residual, rstd)
            x_wide = self.widen(x, residual)
        out.store(self.finish(x_wide, mean, rstd, weight, bias))
        if row < batch:
            for i in range_constexpr(self.vectors):
                col = thread + i * self.threads
                if self.is_col(col, i):
                    cute.autovec_copy(out[None, i], out_row[None, col])

    @cute.kernel
    def long_row(
        self,
        x_ptr: cute.Pointer,
        residual_ptr: cute.Pointer | None,
        weight_ptr: cute.Pointer | None,
        bias_ptr: cute.Pointer | None,
        eps: Float32,
        out_ptr: cute.Pointer,
        new_residual_ptr: cute.Pointer | None,
        batch,
    ):
        form = self.form
        thread, row = cute.arch.thread_idx()[0], cute.arch.block_idx()[0]
        x_row, out_row = self.row_of(x_ptr, row), self.row_of(out_ptr, row)
        residual_row, new_residual_row = self.row_of(residual_ptr, row), self.row_of(new_residual_ptr, row)
        weight_row, bias_row = self.row_of(weight_ptr, 0), self.row_of(bias_ptr, 0)
        x, weight, out, residual, bias = self.registers(self.lanes)

        partial = Float32(0)  # of the values if they are to be centered, else of their squares
        for col in cutlass.range(thread, self.vectors_per_row, self.threads, unroll=4):
            x_wide = self.read(x_row, residual_row, col, x, residual)
            values = self.values_of(x_wide)
            partial += self.sum_of(values) if const_expr(form.centered) else self.sum_of_squares(values)
        if const_expr(form.centered):
            own_mean = self.own_mean(partial, thread)
            squares = Float32(0)
            for col in cutlass.range(thread, self.vectors_per_row, self.threads, unroll=4):
                x_wide = self.read(x_row, residual_row, col, x, residual)
                squares += self.sum_of_squares([value - own_mean for value in self.values_of(x_wide)])
            mean, squares = self.row_moments(own_mean, squares, thread)
        else:
            mean, squares = None, self.row_sum(partial)
        rstd = self.reciprocal_root(squares, eps)
        for col in cutlass.range(thread, self.vectors_per_row, self.threads, unroll=4):
            x_wide = self.read(x_row, residual_row, col, x, residual)
            if const_expr(form.adds_residual):  # only now: it may lie where the residual does
                out.store(x_wide.to(self.dtype))
                cute.autovec_copy(out, new_residual_row[None, col])
            if const_expr(form.has_weight):
                cute.autovec_copy(weight_row[None, col], weight)
            if const_expr(form.has_bias):
                cute.autovec_copy(bias_row[None, col], bias)
            out.store(self.finish(x_wide, mean, rstd, weight, bias))
            cute.autovec_copy(out, out_row[None, col])

    def registers(self, shape):
        """For x, weight, out, residual and bias."""
        dtypes = (self.dtype, self.column_dtype, self.dtype, self.dtype, self.column_dtype)
        return [cute.make_rmem_tensor(shape, dtype) for dtype in dtypes]

    def read(self, x_row, residual_row, col, x, residual):
        cute.autovec_copy(x_row[None, col], x)
        if self.form.adds_residual:
            cute.autovec_copy(residual_row[None, col], residual)
        return self.widen(x, residual)

    def widen(self, x, residual):
        """The values that are normalized, in float32."""
        x_wide = x.load().to(Float32)
        if not self.form.adds_residual:
            return x_wide
        total = x_wide + residual.load().to(Float32)
        return total.to(self.dtype).to(Float32) if self.form.rounds_sum else total

    def deviations(self, x_wide, mean, thread):
        """From a warp's mean; 0 beyond the last column."""
        inside = [self.is_col(thread + i * self.threads, i) for i in range(self.vectors)]
        deviations = [value - mean for value in self.values_of(x_wide)]
        return [
            deviation if inside[i // self.lanes] is True else deviation * Float32(inside[i // self.lanes])
            for i, deviation in enumerate(deviations)
        ]

    def finish(self, x_wide, mean, rstd, weight, bias):
        form = self.form
        value = (x_wide - mean if form.centered else x_wide) * rstd
        if form.rounds_before_weight:
            value = value.to(self.dtype).to(Float32)
        if form.has_weight:
            scale = weight.load().to(Float32)
            value = value * (scale + form.weight_offset if form.weight_offset else scale)
        if form.has_bias:
            value = value + bias.load().to(Float32)
        return value.to(self.dtype)

    @cute.jit
    def reciprocal_root(self, squares, eps):
        # The hardware's reciprocal root is within 2 ulp of float32, far below one of a 16-bit output.
        return cute.math.rsqrt(squares * (1.0 / self.hidden) + eps)
