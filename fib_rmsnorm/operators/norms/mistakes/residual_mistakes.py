"""The usual wrong formulas of add + RMSNorm: of its sum, of what is normalized, and RMSNorm's own of the sum."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

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
        return Mistake(f"the output equals {what}: {fix}", 1, lambda: round_once(compute(), form))

    def normalize(each: Rows) -> Callable[[], torch.Tensor]:
        return lambda: apply(each, right_rstd(each))

    of_x, of_residual = _normalizing(rows, x), _normalizing(rows, residual)
    add = "add the residual before"
    yield mistake("RMSNorm of x alone", f"{add} the squares", normalize(of_x))
    yield mistake("RMSNorm of the residual alone", "add x before the squares", normalize(of_residual))
    yield mistake("RMSNorm of x, plus the residual", f"{add} the squares", lambda: normalize(of_x)() + of_residual.part)
    yield mistake(
        "x + residual times the reciprocal root of x alone",
        "add the squares of the sum, not those of x",
        lambda: apply(right, right_rstd(of_x)),
    )
    yield mistake(
        "x times the reciprocal root of x + residual",
        "multiply the sum by it, not x",
        lambda: apply(of_x, right_rstd(right)),
    )
    difference, twice = x.float() - residual.float(), x.float() + 2 * residual.float()
    yield mistake("RMSNorm of x - residual", "add the residual", normalize(_normalizing(rows, difference)))
    yield mistake("RMSNorm of x + 2 * residual", "add the residual once", normalize(_normalizing(rows, twice)))

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

    def mistake(what: str, fix: str, compute: Callable[[], torch.Tensor]) -> Mistake:
        return Mistake(f"the output equals {what}: {fix}", 1, lambda: round_once(compute(), dtype))

    yield mistake("x", "write x + residual", lambda: x)
    yield mistake("the residual that was passed", "write x + residual", lambda: residual)
    yield mistake("x - residual", "add the residual", lambda: x - residual)
    yield mistake("residual - x", "add x", lambda: residual - x)
    yield mistake("x + 2 * residual", "add the residual once", lambda: x + 2 * residual)
    yield mistake("2 * x + residual", "add x once", lambda: 2 * x + residual)
    total = _normalizing(rows, rows.x.float() + rows.inputs["residual"].float())
    normalized = "the normalized rows"
    write = "write the sum before it is normalized"
    yield mistake(normalized, write, lambda: total.part * right_rstd(total) * total.part_weight)
    yield mistake(f"{normalized} without the weight", write, lambda: total.part * right_rstd(total))
    for narrow in (torch.float16, torch.bfloat16):
        if narrow is not dtype:
            yield mistake(
                f"x + residual rounded to {dtype_name(narrow)} on its way",
                f"convert from float32 to {dtype_name(dtype)} directly",
                lambda narrow=narrow: round_once(x + residual, narrow).to(torch.float64),  # type: ignore[misc]
            )
