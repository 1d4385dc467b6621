"""RMSNorm on CPU: TileLang's C target, written so that the C compiler vectorises every loop."""

import tilelang.language as T

from .c_floats import STORAGE

LANES = 128  # independent partial sums: they fill the vector units and keep chains of rounding short


def rmsnorm(hidden: int, dtype: str):
    """Build the program for any number of rows."""
    storage, load, store = STORAGE[dtype]
    batch = T.dynamic("batch")

    @T.prim_func
    def main(
        x: T.Tensor((batch, hidden), storage),
        weight: T.Tensor((hidden,), storage),
        eps: T.float32,
        out: T.Tensor((batch, hidden), storage),
    ):
        with T.Kernel(1):
            scale = T.alloc_local((hidden,), "float32")
            x_row = T.alloc_local((hidden,), "float32")
            sums = T.alloc_local((LANES,), "float32")
            quarter = T.alloc_local((LANES // 4,), "float32")
            rstd = T.alloc_local((1,), "float32")
            for c in T.serial(hidden):
                scale[c] = load(weight[c])
            for row in T.serial(batch):
                for c in T.serial(hidden):
                    x_row[c] = load(x[row, c])
                T.clear(sums)
                for k, lane in T.grid(hidden // LANES, LANES):
                    sums[lane] += x_row[k * LANES + lane] * x_row[k * LANES + lane]
                for i in T.serial(LANES // 4):
                    quarter[i] = (sums[i] + sums[i + 32]) + (sums[i + 64] + sums[i + 96])
                T.reduce_sum(quarter, rstd, dim=0)
                rstd[0] = 1.0 / T.sqrt(rstd[0] / hidden + eps)
                for c in T.serial(hidden):
                    out[row, c] = store(x_row[c] * rstd[0] * scale[c])

    return main
