"""LayerNorm in CuTe DSL: out = (x - mean(x)) * rsqrt(var(x) + eps) * weight, in float32, rounded once.

One block for each row.
"""

import functools

import cutlass
import torch
from cutlass import Float32, Int64, cute

THREADS = 256  # for each row: whole warps
WARP = 32
DTYPES = {torch.float16: cutlass.Float16, torch.bfloat16: cutlass.BFloat16, torch.float32: cutlass.Float32}


@cute.jit
def block_sum(value: Float32, warp_sums: cute.Tensor):
    """The sum over the block's threads, for every one of them."""
    thread = cute.arch.thread_idx()[0]
    value = cute.arch.warp_reduction_sum(value)
    if thread % WARP == 0:
        warp_sums[thread // WARP] = value
    cute.arch.sync_threads()
    total = Float32(0)
    for warp in cutlass.range_constexpr(THREADS // WARP):
        total += warp_sums[warp]
    return total


@cute.kernel
def normalize_row(x: cute.Tensor, weight: cute.Tensor, eps: Float32, out: cute.Tensor):
    thread, hidden = cute.arch.thread_idx()[0], x.shape[1]
    row = Int64(cute.arch.block_idx()[0])  # batch * hidden may exceed 2^31

    smem = cutlass.utils.SmemAllocator()
    # Two, for a warp may write its second sum before another has read the first ones.
    first, second = [smem.allocate_tensor(Float32, cute.make_layout(THREADS // WARP)) for _ in range(2)]

    values = Float32(0)
    for col in cutlass.range(thread, hidden, THREADS):
        values += x[row, col].to(Float32)
    mean = block_sum(values, first) / hidden
    squares = Float32(0)
    for col in cutlass.range(thread, hidden, THREADS):
        deviation = x[row, col].to(Float32) - mean
        squares += deviation * deviation
    rstd = cute.math.rsqrt(block_sum(squares, second) / hidden + eps)

    for col in cutlass.range(thread, hidden, THREADS):
        centered = (x[row, col].to(Float32) - mean) * rstd
        out[row, col] = (centered * weight[col].to(Float32)).to(out.element_type)


@cute.jit
def launch(x: cute.Tensor, weight: cute.Tensor, eps: Float32, out: cute.Tensor, stream):
    normalize_row(x, weight, eps, out).launch(grid=[x.shape[0], 1, 1], block=[THREADS, 1, 1], stream=stream)


@functools.cache
def compiled(hidden: int, dtype: torch.dtype):
    """Compile for this row length and dtype, and any batch, to a function that takes torch's tensors."""
    rows = cute.runtime.make_fake_compact_tensor(DTYPES[dtype], (cute.sym_int(), hidden), stride_order=(1, 0))
    weight = cute.runtime.make_fake_compact_tensor(DTYPES[dtype], (hidden,), stride_order=(0,))
    stream = cute.runtime.make_fake_stream(use_tvm_ffi_env_stream=True)
    return cute.compile(launch, rows, weight, Float32(0), rows, stream, options="--enable-tvm-ffi")


def run(x: torch.Tensor, weight: torch.Tensor, eps: float, out: torch.Tensor) -> None:
    """Write the normalized rows of x, (batch, hidden), scaled by weight, (hidden,), to out, (batch, hidden)."""
    compiled(x.shape[1], x.dtype)(x, weight, eps, out)
