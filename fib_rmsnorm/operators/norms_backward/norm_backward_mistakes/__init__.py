"""The usual wrong formulas of a norm's gradients, so that a verdict can name the one that an output equals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import torch

from fib_rmsnorm.operators.mistake import Mistake
from fib_rmsnorm.operators.norms.rounding import round_once
from fib_rmsnorm.operators.norms_backward.norm_backward_mistakes.gradient_parts import GradientRows, GradientSums
from fib_rmsnorm.operators.norms_backward.norm_backward_mistakes.wrong_row_gradients import wrong_row_gradients
from fib_rmsnorm.operators.norms_backward.norm_backward_mistakes.wrong_sums import wrong_sums


def usual_mistakes(
    output: str, inputs: Mapping[str, Any], rows: torch.Tensor, columns: torch.Tensor
) -> Iterator[Mistake]:
    """Yield the mistakes that a kernel may make in some elements of an output, always in the same order."""
    if output == "dx":
        part = GradientRows(inputs, rows, columns)
        formulas = [(wrong, partial(wrong.function, part)) for wrong in wrong_row_gradients(part)]
        dtype = inputs["x"].dtype
    else:
        sums = GradientSums(inputs, columns)
        formulas = [(wrong, partial(wrong.function, sums)) for wrong in wrong_sums(output, sums)]
        dtype = inputs["weight"].dtype

    def rounded(compute: Callable[[], torch.Tensor]) -> torch.Tensor:
        return round_once(compute(), dtype)

    for wrong, compute in formulas:
        yield Mistake(f"the output equals {output} {wrong.what}: {wrong.fix}", 1, partial(rounded, compute))


__all__ = ["usual_mistakes"]
