"""The usual wrong formulas of RMSNorm, so that a verdict can name the one that an output equals.

A formula has two parts: a statistic, by which each row is multiplied (right: `rsqrt(mean(x^2) + eps)`), and an
application, which makes the output of x, the statistic, the weight and what else the operator has. A mistake is wrong
in one part, or in both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial

import torch

from fib_rmsnorm.operators.mistake import Mistake
from fib_rmsnorm.operators.norms.rmsnorm_mistakes.other_conventions import (
    find_application,
    offer_definition,
    other_conventions,
)
from fib_rmsnorm.operators.norms.rmsnorm_mistakes.rounded_statistics import rounded_statistics
from fib_rmsnorm.operators.norms.rmsnorm_mistakes.rows import Application, Epilogue, Rows, Wording, Wrong, right_rstd
from fib_rmsnorm.operators.norms.rmsnorm_mistakes.wrong_applications import wrong_applications
from fib_rmsnorm.operators.norms.rmsnorm_mistakes.wrong_statistics import wrong_statistics
from fib_rmsnorm.operators.norms.rounding import round_once


def usual_mistakes(
    rows: Rows,
    convention: str,
    wording: Wording,
    epilogues: Iterable[Wrong] = (),
    *,
    output_dtype: torch.dtype | None = None,
) -> Iterator[Mistake]:
    """Yield the mistakes that a kernel may make in some rows of a call, always in the same order.

    `epilogues` are applications that are wrong after the weight. `output_dtype` is that of the rows by default. Several
    formulas may stand for one mistake, with the same sentence: orders of a sum in float16, for example.
    """
    batch, hidden = rows.x.shape
    dtype = rows.dtype
    statistics = [
        (wrong, cache(partial(wrong.function, rows)))
        for wrong in (*wrong_statistics(batch, hidden, has_weight=rows.has_weight), *rounded_statistics(hidden, dtype))
    ]
    right = find_application(convention, dtype)
    others = list(other_conventions(rows, convention, wording.operators)) if rows.has_weight else []
    applications = wrong_applications(hidden, dtype, right, has_weight=rows.has_weight)

    def mistake(parts: Sequence[Wrong], statistic: Callable[[], torch.Tensor], application: Application) -> Mistake:
        what, fix = " and ".join(part.what for part in parts), "; ".join(part.fix for part in parts)
        return Mistake(
            f"the output equals {wording.what} {wording.say(what)}: {wording.say(fix)}",
            len(parts),
            lambda: round_once(application(rows, statistic()), output_dtype or dtype),
            max(part.slack for part in parts),
        )

    rstd_of_all = cache(partial(right_rstd, rows))
    for wrong, rstd in statistics:
        yield mistake([wrong], rstd, right)
    for wrong in (*others, *epilogues, *applications):
        yield mistake([wrong], rstd_of_all, wrong.function)
    for wrong, rstd in statistics:
        for application in () if wrong.slack else others:
            yield mistake([wrong, application], rstd, application.function)


__all__ = [
    "Epilogue",
    "Rows",
    "Wording",
    "Wrong",
    "find_application",
    "offer_definition",
    "right_rstd",
    "usual_mistakes",
]
