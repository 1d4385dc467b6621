"""The usual wrong formulas of RMSNorm, so that a verdict can name the one that an output equals.

A formula has two parts: a statistic, by which each row is multiplied (right: `rsqrt(mean(x^2) + eps)`), and what makes
the output of x, the statistic, the weight and what else the operator has. A mistake is wrong in one part, or in both.
What one library's convention does with the weight is right there, and a mistake in the others. Those of add + RMSNorm
are of its sum, of what is normalized, and RMSNorm's own of the sum.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from itertools import product

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.operators.late_torch import torch
from fib_rmsnorm.operators.norms.float64_rows import Rounding, find_rstd, narrow_dtypes, round_to
from fib_rmsnorm.operators.norms.mistakes.rows import Rows, Wrong, dtype_name, fewer_columns, mean, mended_by
from fib_rmsnorm.operators.norms.mistakes.wrong_statistics import wrong_statistics
from fib_rmsnorm.operators.operator import Mistake, find_operator


def usual_mistakes(
    rows: Rows, what: str = "RMSNorm", symbol: str = "x", operators: Mapping[str, str] | None = None
) -> Iterator[Mistake]:
    """Yield the mistakes that a kernel may make in some rows of a call, always in the same order.

    Several formulas may stand for one mistake, with the same sentence: orders of a sum in float16, for example. In
    sentences, `what` is the formula's name and `symbol` what is normalized; `operators` are those of the conventions of
    the weight for which `define` makes Definitions.
    """
    statistics = [(wrong, cache(partial(wrong.function, rows))) for wrong in wrong_statistics(rows)]
    others = dict(_other_conventions(rows, operators or {})) if rows.has_weight else {}

    def mistake(compute: Callable[[], torch.Tensor], *parts: Wrong) -> Mistake:
        said = f"{' and '.join(part.what for part in parts)}: {'; '.join(part.fix for part in parts)}"
        of_symbol = re.sub(r"\bx\b", symbol, said)
        return Mistake(
            f"the output equals {what} {of_symbol}",
            len(parts),
            lambda: rows.round(compute()),
            max(part.slack for part in parts),
        )

    def apply(statistic: Callable[[], torch.Tensor], convention: str) -> torch.Tensor:
        return rows.apply(statistic(), convention)

    for wrong, rstd in statistics:
        yield mistake(partial(apply, rstd, rows.convention), wrong)
    for wrong in (*others.values(), *rows.epilogues, *_wrong_applications(rows)):
        yield mistake(partial(wrong.function, rows), wrong)
    for wrong, rstd in statistics:
        for convention, other in () if wrong.slack else others.items():
            yield mistake(partial(apply, rstd, convention), wrong, other)


def _other_conventions(rows: Rows, operators: Mapping[str, str]) -> Iterator[tuple[str, Wrong]]:
    """Yield the other conventions with the mistakes that they are, last the one that leaves the weight out."""
    dtype = dtype_name(rows.dtype)
    called = {
        "torch": "with the weight multiplied in float32 and one rounding, as in torch",
        "llama": f"with x * rstd rounded to {dtype} before the weight, as in Hugging Face's LlamaRMSNorm",
        "gemma": "with 1 + weight instead of weight, as in Gemma",
        "none": "without the weight",
    }
    fix = {
        "torch": "multiply by the weight in float32 and round once",
        "llama": f"round x * rstd to {dtype} before the weight, as Hugging Face's LlamaRMSNorm does",
        "gemma": "multiply by 1 + weight in float32",
    }[rows.convention]
    for other, what in called.items():
        if other != rows.convention:
            mend = "multiply by the weight" if other == "none" else fix + _offer_definition(operators.get(other), rows)
            yield other, Wrong(what, mend, lambda r, other=other: r.apply(r.rstd, other))


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


def _wrong_applications(rows: Rows) -> Iterator[Wrong]:
    """Yield what kernels make wrongly of the right statistic and no library has as its convention."""
    hidden = rows.x.shape[1]
    factors = "rsqrt(mean(x^2) + eps) and the weight" if rows.has_weight else "rsqrt(mean(x^2) + eps)"
    yield Wrong("reduced to x itself", f"multiply by {factors}", lambda r: r.part)
    if rows.has_weight:
        yield Wrong(
            "with the weight added instead of multiplied",
            "multiply by the weight, once",
            lambda r: r.finish(r.normalized + r.part_weight),
        )
        yield Wrong(
            "with the weight of the next column",
            "multiply column c by weight[c]",
            lambda r: r.finish(r.normalized * r.weight_of(r.columns + 1)),
        )
        yield Wrong("of x * weight", "compute mean(x^2) of x alone", _square_products)
    if rows.convention == "gemma" and rows.weight.dtype is not torch.float32:
        narrow = round_to(rows.weight.dtype)
        yield Wrong(
            f"with 1 + weight rounded to {dtype_name(rows.weight.dtype)}",
            "add 1 to the weight in float32",
            lambda r: r.finish(r.normalized * narrow(1 + r.part_weight)),
        )
    yield from _wrong_roundings(rows.dtype)
    if not rows.is_centered:
        yield Wrong("with the mean subtracted, as in LayerNorm", "do not subtract the mean", _center)
    yield from mended_by(
        "write all columns; check the bounds and the mask of the store",
        {
            f"with zeros after the first {columns} of {hidden} columns": partial(
                lambda r, columns: torch.where(r.columns < columns, r.apply(r.rstd), 0.0), columns=columns
            )
            for columns in fewer_columns(hidden)
            if columns >= hidden // 8  # fewer look like zeros alone
        },
    )


def _center(rows: Rows) -> torch.Tensor:
    centered = rows.whole - mean(rows.whole)
    return rows.finish(centered[:, rows.columns] * find_rstd(centered, rows.eps) * rows.part_weight)


def _wrong_roundings(dtype: torch.dtype) -> Iterator[Wrong]:
    yield from mended_by(
        f"convert from float32 to {dtype_name(dtype)} directly",
        {
            f"with the output rounded to {dtype_name(each)} on its way": lambda r, each=each: round_to(each)(
                r.apply(r.rstd)
            )
            for each in (torch.float16, torch.bfloat16)
            if each is not dtype
        },
    )
    for precision in narrow_dtypes(dtype):
        narrow = round_to(precision)
        for round_sum, round_root in product((narrow, torch.positive), repeat=2):
            yield Wrong(
                f"with every step in {dtype_name(precision)}",
                "convert x to float32 first, and to its dtype once at the end",
                partial(_compute_narrowly, narrow=narrow, round_sum=round_sum, round_root=round_root),
            )


def _compute_narrowly(rows: Rows, narrow: Rounding, round_sum: Rounding, round_root: Rounding) -> torch.Tensor:
    """The output of an x that was not converted, as torch computes it.

    On a CPU, it rounds the sum before it divides, and the root before its reciprocal.
    """
    squares = narrow(rows.squares)
    mean_square = narrow(round_sum(squares.sum(-1, keepdim=True)) / squares.shape[1])
    rstd = narrow(1 / round_root(narrow(mean_square + rows.eps).sqrt()))
    return rows.finish(narrow(rows.part * rstd) * rows.part_weight)


def _square_products(rows: Rows) -> torch.Tensor:
    weighted = mean(rows.squares * rows.weight.to(torch.float64) ** 2)
    return rows.finish(rows.part * torch.rsqrt(weighted + rows.eps) * rows.part_weight)


def wrong_outputs(
    rows: Rows, operators: Mapping[str, str], other_operators: Mapping[str, str], *, rounds_sum: bool
) -> Iterator[Mistake]:
    """Yield the mistakes that a kernel may make in the normalized rows, always in the same order.

    `rows` are those of the inputs. `operators` are those of each convention that round the sum alike, and
    `other_operators` the others.
    """
    x, residual, dtype = rows.x, rows.inputs["residual"], dtype_name(rows.dtype)
    of_x, rounded, unrounded = (
        replace(rows, inputs={**rows.inputs, "x": normalized})
        for normalized in (x, x + residual, x.float() + residual.float())
    )
    right, other = (rounded, unrounded) if rounds_sum else (unrounded, rounded)

    def mistake(what: str, fix: str, compute: Callable[[], torch.Tensor]) -> Mistake:
        return Mistake(f"the output equals {what}: {fix}", 1, lambda: rows.round(compute()))

    yield mistake("RMSNorm of x alone", "add the residual before the squares", lambda: of_x.apply(of_x.rstd))
    yield mistake(
        "x + residual times the reciprocal root of x alone",
        "add the squares of the sum, not those of x",
        lambda: right.apply(of_x.rstd),
    )
    of_sum = "RMSNorm of s = x + residual"
    yield from usual_mistakes(right, of_sum, "s", operators)
    if rows.dtype is torch.float32:
        return  # float32's sum is the same, rounded or not
    of_other = f"{of_sum}, {'not rounded' if rounds_sum else 'rounded'} to {dtype}"
    fix = (
        f"round the sum to {dtype} before it is squared"
        if rounds_sum
        else "square and normalize the sum in float32, before it is rounded"
    )
    offer = _offer_definition(other_operators.get(rows.convention), other)
    yield mistake(of_other, fix + offer, lambda: other.apply(other.rstd))
    for each in usual_mistakes(replace(other, epilogues=()), of_other, "s", other_operators):
        if each.parts == 1:  # what combines three would explain too much
            yield replace(each, parts=each.parts + 1)
