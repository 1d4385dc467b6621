"""What the conventions of libraries do with the weight: right in one, a mistake in the others.

Kernels often combine it with a wrong statistic.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from fib_rmsnorm.operators.rmsnorm_mistakes.rows import Application, Rows, Wrong, apply_rightly, dtype_name, round_to

_OPERATORS = {"torch": "rmsnorm", "llama": "rmsnorm_llama", "gemma": "rmsnorm_gemma"}


def find_application(convention: str, dtype: torch.dtype) -> Application:
    """The application that is right in a convention, for x of this dtype."""

    def round_before_the_weight(rows: Rows, rstd: torch.Tensor) -> torch.Tensor:
        return rows.finish(round_to(dtype)(rows.part * rstd) * rows.part_weight)

    def add_one_to_the_weight(rows: Rows, rstd: torch.Tensor) -> torch.Tensor:
        return rows.finish(rows.part * rstd * (1 + rows.part_weight))

    return {"torch": apply_rightly, "llama": round_before_the_weight, "gemma": add_one_to_the_weight}[convention]


def other_conventions(convention: str, dtype: torch.dtype, *, are_defined: bool) -> Iterator[Wrong]:
    """Yield the applications of the other conventions, and the one that leaves the weight out.

    `are_defined` says whether the operator has a sister of each convention, which `define` makes.
    """
    for other, (what, fix) in _describe_conventions(convention, dtype_name(dtype)).items():
        if other != convention:
            definition = f", or choose the Definition of that convention: fib-rmsnorm define {_OPERATORS[other]}"
            yield Wrong(what, f"{fix}{definition if are_defined else ''}", find_application(other, dtype))
    yield Wrong("without the weight", "multiply by the weight", lambda r, rstd: r.finish(r.part * rstd))


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
