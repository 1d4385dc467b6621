"""Llama's RMSNorm in TileLang: out = weight * (x * rsqrt(mean(x^2) + eps)), in float32.

The product in brackets is rounded to the dtype of x before the weight.

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
        weight: T.Tensor((hidden,), dtype),
        eps: T.float32,
        out: T.Tensor((batch, hidden), dtype),
    ):
        with T.Kernel(batch, threads=128) as row:
            squares = alloc((BLOCK,), "float32")
            rstd = alloc((1,), "float32")
            T.clear(squares)
            for chunk in T.serial(chunks):
                for c in columns(BLOCK):  # beyond hidden, a read gives 0 and a write is dropped
                    value = T.cast(x[row, chunk * BLOCK + c], "float32")
                    squares[c] += value * value
            T.reduce_sum(squares, rstd, dim=0)
            rstd[0] = T.rsqrt(rstd[0] / hidden + eps)
            for chunk in T.serial(chunks):
                for c in columns(BLOCK):
                    col = chunk * BLOCK + c
                    normalized = T.cast(T.cast(x[row, col], "float32") * rstd[0], dtype)
                    out[row, col] = T.cast(T.cast(normalized, "float32") * T.cast(weight[col], "float32"), dtype)

    return tilelang.compile(main, target=target)


def run(x: torch.Tensor, weight: torch.Tensor, eps: float, out: torch.Tensor) -> None:
    """Write the normalized rows of x, (batch, hidden), scaled by weight, (hidden,), to out, (batch, hidden)."""
    if x.is_cuda:
        compiled(x.shape[1], str(x.dtype).removeprefix("torch."), "cuda")(x, weight, eps, out)
    else:  # TileLang's C target lacks bfloat16, so torch rounds and multiplies by the weight
        normalized = torch.empty(x.shape)
        compiled(x.shape[1], "float32", "c")(x.float(), torch.ones(weight.shape), eps, normalized)
        torch.mul(normalized.to(x.dtype), weight, out=out)
