"""Add + RMSNorm in TileLang, in float32, rounded once: new_residual = x + residual, and out = its RMSNorm * weight.

The same program serves GPUs, with a block of threads for each row, and CPUs, with a loop over the rows.
"""

import functools

import tilelang
import tilelang.language as T
import torch

BLOCK = 1024  # columns that a block reads at once


@functools.cache
def compiled(hidden: int, dtype: str, target: str):
    """Compile for this row length and any batch."""
    on_gpu = target == "cuda"
    alloc, columns = (T.alloc_fragment, T.Parallel) if on_gpu else (T.alloc_local, T.serial)
    batch = T.dynamic("batch")
    chunks = T.ceildiv(hidden, BLOCK)

    @T.prim_func
    def main(
        x: T.Tensor((batch, hidden), dtype),
        residual: T.Tensor((batch, hidden), dtype),
        weight: T.Tensor((hidden,), dtype),
        eps: T.float32,
        out: T.Tensor((batch, hidden), dtype),
        new_residual: T.Tensor((batch, hidden), dtype),
    ):
        with T.Kernel(batch, threads=128) as row:
            squares = alloc((BLOCK,), "float32")
            rstd = alloc((1,), "float32")
            T.clear(squares)
            for chunk in T.serial(chunks):
                for c in columns(BLOCK):  # beyond hidden, a read gives 0 and a write is dropped
                    col = chunk * BLOCK + c
                    total = T.cast(x[row, col], "float32") + T.cast(residual[row, col], "float32")
                    squares[c] += total * total
            T.reduce_sum(squares, rstd, dim=0)
            rstd[0] = T.rsqrt(rstd[0] / hidden + eps)
            for chunk in T.serial(chunks):
                for c in columns(BLOCK):
                    col = chunk * BLOCK + c
                    total = T.cast(x[row, col], "float32") + T.cast(residual[row, col], "float32")
                    out[row, col] = T.cast(total * rstd[0] * T.cast(weight[col], "float32"), dtype)
                    new_residual[row, col] = T.cast(total, dtype)

    return tilelang.compile(main, target=target)


def run(
    x: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor,
    eps: float,
    out: torch.Tensor,
    new_residual: torch.Tensor,
) -> None:
    """Write x + residual, (batch, hidden), to new_residual, and its normalized rows, scaled by weight, to out."""
    if x.is_cuda:
        kernel = compiled(x.shape[1], str(x.dtype).removeprefix("torch."), "cuda")
        kernel(x, residual, weight, eps, out, new_residual)
    else:  # TileLang's C target lacks bfloat16
        out_fp32, total_fp32 = torch.empty(x.shape), torch.empty(x.shape)
        kernel = compiled(x.shape[1], "float32", "c")
        kernel(x.float(), residual.float(), weight.float(), eps, out_fp32, total_fp32)
        out.copy_(out_fp32)
        new_residual.copy_(total_fp32)
