"""The usual wrong formulas of add + RMSNorm: of its sum, of what is normalized, and RMSNorm's own of the sum."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial

import torch

from fib_rmsnorm.operators.norms.float64_rows import round_once
from fib_rmsnorm.operators.norms.mistakes.rmsnorm_mistakes import find_application, offer_definition, usual_mistakes
from fib_rmsnorm.operators.norms.mistakes.rows import Rows, Wording, dtype_name, right_rstd
from fib_rmsnorm.operators.operator import Mistake


def wrong_outputs(
    rows: Rows, convention: str, conventions: tuple[Mapping[str, str], Mapping[str, str]], *, rounds_sum: bool
) -> Iterator[Mistake]:
    """Yield the mistakes that a kernel may make in the normalized rows, always in the same order.

    `rows` are those of the inputs, and `conventions` the operators of each convention that round the sum, and of those
    that do not.
    """
    x, residual, dtype = rows.x, rows.inputs["residual"], rows.dtype
    rounded, unrounded = _normalizing(rows, x + residual), _normalizing(rows, x.float() + residual.float())
    right, other = (rounded, unrounded) if rounds_sum else (unrounded, rounded)
    apply, form = find_application(convention, dtype), rows.form or dtype

    def mistake(what: str, fix: str, compute: Callable[[], torch.Tensor]) -> Mistake:
        return Mistake(f"the output equals {what}: {fix}", 1, partial(_compute_rounded, compute, form))

    def normalize(each: Rows) -> Callable[[], torch.Tensor]:
        return lambda: apply(each, right_rstd(each))

    of_x, difference = _normalizing(rows, x), x.float() - residual.float()
    for what, fix, compute in (
        ("RMSNorm of x alone", "add the residual before the squares", normalize(of_x)),
        ("RMSNorm of the residual alone", "add x before the squares", normalize(_normalizing(rows, residual))),
        (
            "x + residual times the reciprocal root of x alone",
            "add the squares of the sum, not those of x",
            lambda: apply(right, right_rstd(of_x)),
        ),
        ("RMSNorm of x - residual", "add the residual", normalize(_normalizing(rows, difference))),
    ):
        yield mistake(what, fix, compute)

    def word(*, rounded: bool, is_right: bool) -> Wording:
        how = "" if is_right else f", {'rounded' if rounded else 'not rounded'} to {dtype_name(dtype)}"
        return Wording(f"RMSNorm of s = x + residual{how}", "s", conventions[not rounded] if rows.form is None else {})

    yield from usual_mistakes(right, convention, word(rounded=rounds_sum, is_right=True))
    if dtype is torch.float32:
        return  # float32's sum is the same, rounded or not
    wording = word(rounded=not rounds_sum, is_right=False)
    fix = (
        f"round the sum to {dtype_name(dtype)} before it is squared"
        if rounds_sum
        else "square and normalize the sum in float32, before it is rounded"
    )
    offer = offer_definition(wording.operators.get(convention), other)
    yield mistake(wording.what, fix + offer, normalize(other))
    for each in usual_mistakes(replace(other, epilogues=()), convention, wording):
        if each.parts == 1:  # what combines three would explain too much
            yield replace(each, parts=each.parts + 1)


def _normalizing(rows: Rows, normalized: torch.Tensor) -> Rows:
    """The same rows, of a tensor of the whole call that is to be normalized."""
    others = {part: value for part, value in rows.inputs.items() if part != "residual"}
    return replace(rows, inputs={**others, "x": normalized}, row_dtype=rows.dtype)


def wrong_residuals(rows: Rows) -> Iterator[Mistake]:
    """Yield the mistakes that a kernel may make in the new residual, always in the same order."""
    x, residual, dtype = rows.part, rows.part_of("residual"), rows.dtype

    total = _normalizing(rows, rows.x.float() + rows.inputs["residual"].float())
    write, once = "write x + residual", "write the sum before it is normalized"
    formulas: list[tuple[str, str, Callable[[], torch.Tensor]]] = [
        ("x", write, lambda: x),
        ("the residual that was passed", write, lambda: residual),
        ("x - residual", "add the residual", lambda: x - residual),
        ("the normalized rows", once, lambda: total.part * right_rstd(total) * total.part_weight),
        ("the normalized rows without the weight", once, lambda: total.part * right_rstd(total)),
    ]
    formulas += [
        (
            f"x + residual rounded to {dtype_name(narrow)} on its way",
            f"convert from float32 to {dtype_name(dtype)} directly",
            lambda narrow=narrow: round_once(x + residual, narrow).to(torch.float64),  # type: ignore[misc]
        )
        for narrow in (torch.float16, torch.bfloat16)
        if narrow is not dtype
    ]
    for what, fix, compute in formulas:
        yield Mistake(f"the output equals {what}: {fix}", 1, partial(_compute_rounded, compute, dtype))


def _compute_rounded(compute: Callable[[], torch.Tensor], dtype: torch.dtype) -> torch.Tensor:
    return round_once(compute(), dtype)
