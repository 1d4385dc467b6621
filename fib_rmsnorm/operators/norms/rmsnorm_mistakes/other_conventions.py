"""What the conventions of libraries do with the weight: right in one, a mistake in the others.

Kernels often combine it with a wrong statistic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

import torch

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.operators.norms.rmsnorm_mistakes.rows import (
    Application,
    Rows,
    Wrong,
    apply_rightly,
    dtype_name,
    round_to,
)


def find_application(convention: str, dtype: torch.dtype) -> Application:
    """The application that is right in a convention, for x of this dtype."""

    def round_before_the_weight(rows: Rows, rstd: torch.Tensor) -> torch.Tensor:
        # By way of float32, as kernels do: there, a value that is next to a tie of 16 bits is one.
        normalized = (rows.part * rstd).to(torch.float32).to(torch.float64)
        return rows.finish(round_to(dtype)(normalized) * rows.part_weight)

    def add_one_to_the_weight(rows: Rows, rstd: torch.Tensor) -> torch.Tensor:
        return rows.finish(rows.part * rstd * (1 + rows.part_weight))

    return {"torch": apply_rightly, "llama": round_before_the_weight, "gemma": add_one_to_the_weight}[convention]


def other_conventions(rows: Rows, convention: str, operators: Mapping[str, str]) -> Iterator[Wrong]:
    """Yield the applications of the other conventions, and the one that leaves the weight out.

    `operators` are those of the conventions for which `define` makes Definitions.
    """
    for other, (what, fix) in _describe_conventions(convention, dtype_name(rows.dtype)).items():
        if other != convention:
            yield Wrong(what, fix + offer_definition(operators.get(other), rows), find_application(other, rows.dtype))
    yield Wrong("without the weight", "multiply by the weight", lambda r, rstd: r.finish(r.part * rstd))


def offer_definition(operator: str | None, rows: Rows) -> str:
    """The end of a fix, for a mistake that is right by another operator; nothing if it is by none."""
    if operator is None:
        return ""
    name = _name_definition(operator, rows.x.shape[1], dtype_name(rows.dtype), dtype_name(rows.weight.dtype))
    return f", or choose the Definition of that convention: --definition {name}" if name else ""


@cache
def _name_definition(operator: str, hidden: int, x: str, weight: str) -> str:
    from fib_rmsnorm.operators.known_operators import find_operator  # which imports the operators, and they this

    try:
        return find_operator(operator).define_like({"hidden": hidden}, {"x": x, "weight": weight}).name
    except InputError:  # it has no Definition of these dtypes
        return ""


def _describe_conventions(right: str, dtype: str) -> dict[str, tuple[str, str]]:
    """For each convention: what it does, and what is right instead."""
    fixes = {
        "torch": "multiply by the weight in float32 and round once",
        "llama": f"round x * rstd to {dtype} before the weight, as Hugging Face's LlamaRMSNorm does",
        "gemma": "multiply by 1 + weight in float32",
    }
    fix = fixes[right]
    return {
        "torch": ("with the weight multiplied in float32 and one rounding, as in torch", fix),
        "llama": (f"with x * rstd rounded to {dtype} before the weight, as in Hugging Face's LlamaRMSNorm", fix),
        "gemma": ("with 1 + weight instead of weight, as in Gemma", fix),
    }
