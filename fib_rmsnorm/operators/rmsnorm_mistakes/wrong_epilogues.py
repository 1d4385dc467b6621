"""Wrong epilogues of RMSNorm: what is done after the weight is missing, wrong or in another place."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch

from fib_rmsnorm.operators.rmsnorm_mistakes.rows import Rows, Wrong, dtype_name, round_to


def scaled_rows(rows: Rows, rstd: torch.Tensor) -> torch.Tensor:
    """The right rows before the epilogue."""
    return rows.part * rstd * rows.part_weight


def wrong_biases(dtype: torch.dtype) -> Iterator[Wrong]:
    """Yield the mistakes with a bias, for x of this dtype."""
    fix = "compute x * rstd * weight + bias"
    yield Wrong("without the bias", "add the bias after the weight", scaled_rows)
    yield Wrong("with the bias subtracted", "add the bias", lambda r, rstd: scaled_rows(r, rstd) - r.parts["bias"])
    yield Wrong(
        "with the bias added before the weight",
        fix,
        lambda r, rstd: (r.part * rstd + r.parts["bias"]) * r.part_weight,
    )
    yield Wrong(
        "with the bias added before the statistic is applied",
        fix,
        lambda r, rstd: (r.part + r.parts["bias"]) * rstd * r.part_weight,
    )
    yield Wrong(
        "with weight and bias swapped",
        fix,
        lambda r, rstd: r.part * rstd * r.parts["bias"] + r.part_weight,
    )
    for name, by in (("previous", -1), ("next", 1)):
        yield Wrong(
            f"with the bias of the {name} column",
            "add bias[c] to column c",
            partial(lambda r, rstd, by: scaled_rows(r, rstd) + r.beside("bias", by), by=by),
        )
    if dtype is not torch.float32:
        yield Wrong(
            f"with x * rstd * weight rounded to {dtype_name(dtype)} before the bias",
            "add the bias in float32 and round once",
            lambda r, rstd: round_to(dtype)(scaled_rows(r, rstd)) + r.parts["bias"],
        )
