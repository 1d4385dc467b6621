"""The usual wrong formulas of add + RMSNorm: of its sum, of what is normalized, and RMSNorm's own of the sum."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch

from fib_rmsnorm.operators.norms.float64_rows import round_once
from fib_rmsnorm.operators.norms.mistakes.rmsnorm_mistakes import find_application, offer_definition, usual_mistakes
from fib_rmsnorm.operators.norms.mistakes.rows import Epilogue, Rows, Wording, Wrong, dtype_name, right_rstd
from fib_rmsnorm.operators.operator import Mistake

# By whether the sum is rounded, and the convention of the weight.
_OPERATORS = {
    False: {"torch": "fused_add_rmsnorm", "gemma": "fused_add_rmsnorm_gemma"},
    True: {"torch": "fused_add_rmsnorm_rounded", "llama": "fused_add_rmsnorm_llama"},
}


@dataclass(frozen=True, eq=False)
class Sums(Rows):
    """Some rows of a call's inputs before they are added: x and residual, [batch, hidden], and others."""

    epilogue: Epilogue = lambda scaled, _: scaled
    epilogues: Sequence[Wrong] = ()
    """The usual mistakes in the epilogue."""
    form: torch.dtype | None = None
    """The dtype that the epilogue's output is rounded to, if it is not that of x."""

    @property
    def residual(self) -> torch.Tensor:
        """The residual of the whole call."""
        residual: torch.Tensor = self.inputs["residual"]
        return residual

    def rows_of(self, normalized: torch.Tensor) -> Rows:
        """The rows of a tensor of the whole call, to be normalized."""
        others = {part: value for part, value in self.inputs.items() if part != "residual"}
        return Rows({**others, "x": normalized}, self.rows, self.columns, self.epilogue, self.dtype)

    @cached_property
    def unrounded(self) -> Rows:
        """The sums in float32."""
        return self.rows_of(self.x.to(torch.float32) + self.residual.to(torch.float32))

    @cached_property
    def rounded(self) -> Rows:
        """The sums in the dtype of x."""
        return self.rows_of(self.x + self.residual)


def wrong_outputs(sums: Sums, convention: str, *, rounds_sum: bool) -> Iterator[Mistake]:
    """Yield the mistakes that a kernel may make in the normalized rows, always in the same order."""
    right, other = (sums.rounded, sums.unrounded) if rounds_sum else (sums.unrounded, sums.rounded)
    apply, form = find_application(convention, sums.dtype), sums.form or sums.dtype

    def mistake(what: str, fix: str, compute: Callable[[], torch.Tensor]) -> Mistake:
        return Mistake(f"the output equals {what}: {fix}", 1, lambda: round_once(compute(), form))

    def normalize(rows: Rows) -> Callable[[], torch.Tensor]:
        return lambda: apply(rows, right_rstd(rows))

    x, residual = (sums.rows_of(tensor) for tensor in (sums.x, sums.residual))
    add = "add the residual before"
    yield mistake("RMSNorm of x alone", f"{add} the squares", normalize(x))
    yield mistake("RMSNorm of the residual alone", "add x before the squares", normalize(residual))
    yield mistake("RMSNorm of x, plus the residual", f"{add} the squares", lambda: normalize(x)() + residual.part)
    yield mistake(
        "x + residual times the reciprocal root of x alone",
        "add the squares of the sum, not those of x",
        lambda: apply(right, right_rstd(x)),
    )
    yield mistake(
        "x times the reciprocal root of x + residual",
        "multiply the sum by it, not x",
        lambda: apply(x, right_rstd(right)),
    )
    yield mistake(
        "RMSNorm of x - residual", "add the residual", normalize(sums.rows_of(sums.x.float() - sums.residual.float()))
    )
    yield mistake(
        "RMSNorm of x + 2 * residual",
        "add the residual once",
        normalize(sums.rows_of(sums.x.float() + 2 * sums.residual.float())),
    )
    wording = _wording(sums, rounded=rounds_sum, is_right=True)
    yield from usual_mistakes(right, convention, wording, sums.epilogues, output_dtype=form)
    if sums.dtype is torch.float32:
        return  # float32's sum is the same, rounded or not
    wording = _wording(sums, rounded=not rounds_sum, is_right=False)
    fix = (
        f"round the sum to {dtype_name(sums.dtype)} before it is squared"
        if rounds_sum
        else "square and normalize the sum in float32, before it is rounded"
    )
    offer = offer_definition(wording.operators.get(convention), other)
    yield mistake(wording.what, fix + offer, normalize(other))
    for each in usual_mistakes(other, convention, wording, output_dtype=form):
        if each.parts == 1:  # what combines three would explain too much
            yield replace(each, parts=each.parts + 1)


def _wording(sums: Sums, *, rounded: bool, is_right: bool) -> Wording:
    how = f", {'rounded' if rounded else 'not rounded'} to {dtype_name(sums.dtype)}"
    operators = _OPERATORS[rounded] if sums.form is None else {}
    return Wording(f"RMSNorm of s = x + residual{'' if is_right else how}", "s", operators)


def wrong_residuals(sums: Sums) -> Iterator[Mistake]:
    """Yield the mistakes that a kernel may make in the new residual, always in the same order."""
    x, residual = sums.part, sums.part_of("residual")

    def mistake(what: str, fix: str, compute: Callable[[], torch.Tensor]) -> Mistake:
        return Mistake(f"the output equals {what}: {fix}", 1, lambda: round_once(compute(), sums.dtype))

    yield mistake("x", "write x + residual", lambda: x)
    yield mistake("the residual that was passed", "write x + residual", lambda: residual)
    yield mistake("x - residual", "add the residual", lambda: x - residual)
    yield mistake("residual - x", "add x", lambda: residual - x)
    yield mistake("x + 2 * residual", "add the residual once", lambda: x + 2 * residual)
    yield mistake("2 * x + residual", "add x once", lambda: 2 * x + residual)
    rows = sums.unrounded
    normalized = "the normalized rows"
    write = "write the sum before it is normalized"
    yield mistake(normalized, write, lambda: rows.part * right_rstd(rows) * rows.part_weight)
    yield mistake(f"{normalized} without the weight", write, lambda: rows.part * right_rstd(rows))
    for narrow in (torch.float16, torch.bfloat16):
        if narrow is not sums.dtype:
            yield mistake(
                f"x + residual rounded to {dtype_name(narrow)} on its way",
                f"convert from float32 to {dtype_name(sums.dtype)} directly",
                lambda narrow=narrow: round_once(x + residual, narrow).to(torch.float64),  # type: ignore[misc]
            )
