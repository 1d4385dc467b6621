# 0 Called as rmsnorm_kernel[(batch,)](x, weight, out, batch, hidden, eps, 1, 1 << (hidden - 1).bit_length())
import triton
import triton.language as tl


def list_warps():
    return [triton.Config({}, num_warps=warps) for warps in (4, 8)]


@triton.jit
def rmsnorm_kernel(x_ptr, w_ptr, y_ptr, M, N, eps, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    cols = tl.arange(0, BLOCK_N)[None, :]
    mask = (rows < M) & (cols < N)
    x = tl.load(x_ptr + rows * N + cols, mask=mask, other=0.0).to(tl.float32)
    rstd = tl.rsqrt(tl.sum(x * x, axis=1) / N + eps)[:, None]
    w = tl.load(w_ptr + cols, mask=cols < N, other=0.0).to(tl.float32)
    tl.store(y_ptr + rows * N + cols, (x * rstd * w).to(y_ptr.dtype.element_ty), mask=mask)
