"""LayerNorm in TileLang: out = (x - mean(x)) * rsqrt(var(x) + eps) * weight, in float32, rounded once.

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
            sums = alloc((BLOCK,), "float32")
            mean = alloc((1,), "float32")
            rstd = alloc((1,), "float32")
            T.clear(sums)
            for chunk in T.serial(chunks):
                for c in columns(BLOCK):  # beyond hidden, a read gives 0 and a write is dropped
                    sums[c] += T.cast(x[row, chunk * BLOCK + c], "float32")
            T.reduce_sum(sums, mean, dim=0)
            mean[0] = mean[0] / hidden
            T.clear(sums)
            for chunk in T.serial(chunks):
                for c in columns(BLOCK):
                    col = chunk * BLOCK + c
                    if col < hidden:
                        deviation = T.cast(x[row, col], "float32") - mean[0]
                        sums[c] += deviation * deviation
            T.reduce_sum(sums, rstd, dim=0)
            rstd[0] = T.rsqrt(rstd[0] / hidden + eps)
            for chunk in T.serial(chunks):
                for c in columns(BLOCK):
                    col = chunk * BLOCK + c
                    scale = rstd[0] * T.cast(weight[col], "float32")
                    centered = (T.cast(x[row, col], "float32") - mean[0]) * scale
                    out[row, col] = T.cast(centered, dtype)

    return tilelang.compile(main, target=target)


def run(x: torch.Tensor, weight: torch.Tensor, eps: float, out: torch.Tensor) -> None:
    """Write the normalized rows of x, (batch, hidden), scaled by weight, (hidden,), to out, (batch, hidden)."""
    if x.is_cuda:
        compiled(x.shape[1], str(x.dtype).removeprefix("torch."), "cuda")(x, weight, eps, out)
    else:  # TileLang's C target lacks bfloat16
        out_fp32 = torch.empty(x.shape)
        compiled(x.shape[1], "float32", "c")(x.float(), weight.float(), eps, out_fp32)
        out.copy_(out_fp32)
