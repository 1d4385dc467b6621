"""The usual wrong formulas of RMSNorm, so that a verdict can name the one that an output equals.

A formula has two parts: a statistic, by which each row is multiplied (right: `rsqrt(mean(x^2) + eps)`), and an
application, which makes the output of x, the statistic, the weight and what else the operator has. A mistake is wrong
in one part, or in both. What one library's convention does with the weight is right there, and a mistake in the others.
Those of add + RMSNorm are of its sum, of what is normalized, and RMSNorm's own of the sum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.operators.late_torch import torch
from fib_rmsnorm.operators.norms.float64_rows import round_once
from fib_rmsnorm.operators.norms.mistakes.rows import (
    Application,
    Rounding,
    Rows,
    Wording,
    Wrong,
    apply_rightly,
    dtype_name,
    fewer_columns,
    mean,
    narrow_dtypes,
    right_rstd,
    round_to,
)
from fib_rmsnorm.operators.norms.mistakes.wrong_statistics import (
    narrow_statistics,
    rounded_statistics,
    wrong_statistics,
)
from fib_rmsnorm.operators.operator import Mistake, find_operator


def usual_mistakes(rows: Rows, convention: str, wording: Wording) -> Iterator[Mistake]:
    """Yield the mistakes that a kernel may make in some rows of a call, always in the same order.

    Several formulas may stand for one mistake, with the same sentence: orders of a sum in float16, for example.
    """
    dtype = rows.dtype
    statistics = [
        (wrong, cache(partial(wrong.function, rows)))
        for wrong in (*wrong_statistics(rows), *rounded_statistics(rows.x.shape[1], dtype))
    ]
    right = _find_application(convention, dtype)
    others = list(_other_conventions(rows, convention, wording.operators)) if rows.has_weight else []
    applications = _wrong_applications(rows, right)

    def mistake(parts: Sequence[Wrong], statistic: Callable[[], torch.Tensor], application: Application) -> Mistake:
        what, fix = " and ".join(part.what for part in parts), "; ".join(part.fix for part in parts)
        return Mistake(
            f"the output equals {wording.what} {wording.say(what)}: {wording.say(fix)}",
            len(parts),
            lambda: round_once(application(rows, statistic()), rows.form or dtype),
            max(part.slack for part in parts),
        )

    rstd_of_all = cache(partial(right_rstd, rows))
    for wrong, rstd in statistics:
        yield mistake([wrong], rstd, right)
    for wrong in (*others, *rows.epilogues, *applications):
        yield mistake([wrong], rstd_of_all, wrong.function)
    for wrong, rstd in statistics:
        for application in () if wrong.slack else others:
            yield mistake([wrong, application], rstd, application.function)


def _find_application(convention: str, dtype: torch.dtype) -> Application:
    """The application that is right in a convention, for x of this dtype."""

    def round_before_the_weight(rows: Rows, rstd: torch.Tensor) -> torch.Tensor:
        # By way of float32, as kernels do: there, a value that is next to a tie of 16 bits is one.
        normalized = (rows.part * rstd).to(torch.float32).to(torch.float64)
        return rows.finish(round_to(dtype)(normalized) * rows.part_weight)

    def add_one_to_the_weight(rows: Rows, rstd: torch.Tensor) -> torch.Tensor:
        return rows.finish(rows.part * rstd * (1 + rows.part_weight))

    return {"torch": apply_rightly, "llama": round_before_the_weight, "gemma": add_one_to_the_weight}[convention]


def _other_conventions(rows: Rows, convention: str, operators: Mapping[str, str]) -> Iterator[Wrong]:
    """Yield the applications of the other conventions, and the one that leaves the weight out.

    `operators` are those of the conventions for which `define` makes Definitions.
    """
    dtype = dtype_name(rows.dtype)
    called = {
        "torch": "with the weight multiplied in float32 and one rounding, as in torch",
        "llama": f"with x * rstd rounded to {dtype} before the weight, as in Hugging Face's LlamaRMSNorm",
        "gemma": "with 1 + weight instead of weight, as in Gemma",
    }
    fix = {
        "torch": "multiply by the weight in float32 and round once",
        "llama": f"round x * rstd to {dtype} before the weight, as Hugging Face's LlamaRMSNorm does",
        "gemma": "multiply by 1 + weight in float32",
    }[convention]
    for other, what in called.items():
        if other != convention:
            yield Wrong(what, fix + _offer_definition(operators.get(other), rows), _find_application(other, rows.dtype))
    yield Wrong("without the weight", "multiply by the weight", lambda r, rstd: r.finish(r.part * rstd))


def _offer_definition(operator: str | None, rows: Rows) -> str:
    """The end of a fix, for a mistake that is right by another operator; nothing if it is by none."""
    if operator is None:
        return ""
    dtypes = {"x": dtype_name(rows.dtype), "weight": dtype_name(rows.weight.dtype)}
    try:
        name = find_operator(operator).define_like({"hidden": rows.x.shape[1]}, dtypes).name
    except InputError:  # it has no Definition of these dtypes
        return ""
    return f", or choose the Definition of that convention: --definition {name}"


def _wrong_applications(rows: Rows, right: Application) -> Iterator[Wrong]:
    """Yield the wrong applications that no library has as its convention, for some rows of a call."""
    hidden = rows.x.shape[1]
    factors = "rsqrt(mean(x^2) + eps) and the weight" if rows.has_weight else "rsqrt(mean(x^2) + eps)"
    yield Wrong("reduced to x itself", f"multiply by {factors}", lambda r, rstd: r.part)
    if rows.has_weight:
        yield Wrong(
            "with the weight added instead of multiplied",
            "multiply by the weight, once",
            lambda r, rstd: r.finish(r.part * rstd + r.part_weight),
        )
        yield Wrong(
            "with the weight of the next column",
            "multiply column c by weight[c]",
            lambda r, rstd: r.finish(r.part * rstd * r.weight_of(r.columns + 1)),
        )
        yield Wrong("of x * weight", "compute mean(x^2) of x alone", lambda r, _: _square_products(r))
    yield from _wrong_roundings(rows.dtype, right)
    if not rows.is_centered:
        yield Wrong("with the mean subtracted, as in LayerNorm", "do not subtract the mean", lambda r, _: _center(r))
    for columns in (count for count in fewer_columns(hidden) if count >= hidden // 8):  # fewer look like zeros alone
        yield Wrong(
            f"with zeros after the first {columns} of {hidden} columns",
            "write all columns; check the bounds and the mask of the store",
            lambda r, rstd, columns=columns: torch.where(r.columns < columns, right(r, rstd), 0.0),
        )


def _center(rows: Rows) -> torch.Tensor:
    centered = rows.whole - mean(rows.whole)
    rstd = torch.rsqrt(mean(centered**2) + rows.eps)
    return rows.finish(centered[:, rows.columns] * rstd * rows.part_weight)


def _wrong_roundings(dtype: torch.dtype, right: Application) -> Iterator[Wrong]:
    for precision in (torch.float16, torch.bfloat16):
        if precision is not dtype:
            yield Wrong(
                f"with the output rounded to {dtype_name(precision)} on its way",
                f"convert from float32 to {dtype_name(dtype)} directly",
                partial(lambda r, rstd, narrow: narrow(right(r, rstd)), narrow=round_to(precision)),
            )
    for precision in narrow_dtypes(dtype):
        for statistic in narrow_statistics(round_to(precision)):
            yield Wrong(
                f"with every step in {dtype_name(precision)}",
                "convert x to float32 first, and to its dtype once at the end",
                partial(_compute_narrowly, narrow=round_to(precision), statistic=statistic),
            )


def _compute_narrowly(
    rows: Rows, _: torch.Tensor, narrow: Rounding, statistic: Callable[[Rows], torch.Tensor]
) -> torch.Tensor:
    return rows.finish(narrow(rows.part * statistic(rows)) * rows.part_weight)


def _square_products(rows: Rows) -> torch.Tensor:
    return apply_rightly(rows, torch.rsqrt(mean(rows.squares * rows.weight.to(torch.float64) ** 2) + rows.eps))


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
    apply, form = _find_application(convention, dtype), rows.form or dtype

    def mistake(what: str, fix: str, compute: Callable[[], torch.Tensor]) -> Mistake:
        return Mistake(f"the output equals {what}: {fix}", 1, lambda: round_once(compute(), form))

    def normalize(each: Rows) -> Callable[[], torch.Tensor]:
        return lambda: apply(each, right_rstd(each))

    of_x = _normalizing(rows, x)
    yield mistake("RMSNorm of x alone", "add the residual before the squares", normalize(of_x))
    yield mistake(
        "x + residual times the reciprocal root of x alone",
        "add the squares of the sum, not those of x",
        lambda: apply(right, right_rstd(of_x)),
    )

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
    offer = _offer_definition(wording.operators.get(convention), other)
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
    for part, what in {"x": "x", "residual": "the residual that was passed"}.items():
        yield Mistake(
            f"the output equals {what}: write x + residual",
            1,
            lambda part=part: round_once(rows.part_of(part), rows.dtype),  # type: ignore[misc]
        )
