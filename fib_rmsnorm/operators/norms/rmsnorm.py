"""RMSNorm: `out = x * rsqrt(mean(x^2) + eps) * weight` (Zhang and Sennrich 2019, arXiv:1910.07467).

The first class is the base of those that apply the weight otherwise, as Llama and Gemma do, or do more with the scaled
rows. Each has Definitions of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

from fib_rmsnorm.operators.kernel_templates import fill_in, find_words
from fib_rmsnorm.operators.late_torch import torch
from fib_rmsnorm.operators.norms.float64_rows import (
    APPLY_WEIGHT,
    compute_by_blocks,
    find_rstd,
    float32_statistic_error,
    round_once,
)
from fib_rmsnorm.operators.norms.mistakes.rmsnorm_mistakes import usual_mistakes
from fib_rmsnorm.operators.norms.mistakes.rows import Epilogue, Rows, Wrong
from fib_rmsnorm.operators.norms.norm_definitions import (
    NUMBER,
    PER_COLUMN,
    PER_ELEMENT,
    SCALE,
    NormTensor,
    write_epilogue,
)
from fib_rmsnorm.operators.norms.norm_operator import NormOperator
from fib_rmsnorm.operators.operator import Cost, ExactOutput, Inputs, Mistake


class RmsNorm(NormOperator):
    """The operator RMSNorm over the last axis, in the convention of torch: computed in float32 and rounded once."""

    name: ClassVar[str] = "rmsnorm"
    convention: ClassVar[str] = "torch"
    """The library in whose way the weight is applied, of APPLY_WEIGHT."""
    equation: ClassVar[str] = "out = x * rsqrt(mean(x^2) + eps) * weight"
    arguments: ClassVar[tuple[str, ...]] = ("x", "weight", "eps")
    tensors: ClassVar[Mapping[str, NormTensor]] = {
        "x": NormTensor(PER_ELEMENT, "Activations, contiguous by rows."),
        "weight": SCALE,
        "eps": NormTensor(NUMBER, "Added to the mean square before the reciprocal square root."),
        "out": NormTensor(PER_ELEMENT, "Normalized and scaled activations."),
    }
    start: ClassVar[tuple[str, ...]] = (
        "x_fp32 = x.to(torch.float32)",
        "mean_square = x_fp32.pow(2).mean(dim=-1, keepdim=True)",
        "rstd = torch.rsqrt(mean_square + eps)",
    )
    end: ClassVar[tuple[str, ...]] = ("return (x_fp32 * rstd * weight.to(torch.float32)).to(x.dtype)",)
    steps: ClassVar[tuple[str, ...]] = ("square", "add", "times rstd", "times weight")
    """The operations of an element."""
    steps_of_row: ClassVar[tuple[int, str]] = (3, "divide, add eps, reciprocal square root")
    """The number of operations of a row, and which."""
    title: ClassVar[str] = "RMSNorm"
    does: ClassVar[str] = "Normalize the rows of x, (batch, hidden), and scale them by weight, (hidden,)."
    """A sentence on what `run` of its kernel to start from does."""
    expression = "x * rstd * weight"
    short_equation: ClassVar[str] = ""
    """The equation in that kernel's first line, if another."""
    note: ClassVar[str] = ""
    """A sentence there on the rounding, where that is not done once at the end."""
    is_centered: ClassVar[bool] = False
    """Whether it subtracts the mean of each row."""
    is_strict: ClassVar[bool] = False
    """Whether `bound_error` is all of the error that an element of `out` may have."""
    needs_whole_rows: ClassVar[bool] = False
    """Whether an element of an output depends on all scaled elements of its row."""

    def write_kernel(self, dtypes: Mapping[str, str], language: str) -> str | None:
        """Write the kernel, which takes any rows, of float16, bfloat16 or float32.

        A weight and a bias may be float32 beside other rows in all languages but TileLang and CuTe DSL; only in Triton
        may one of them be so.
        """
        words = find_words(language)
        if self.expression is None or words is None or not {*self.outputs} <= dtypes.keys():
            return None
        inputs = [part for part in self.arguments if part != "eps"]
        columns = [part for part in inputs if self.tensors[part].shape == PER_COLUMN]
        rows = [part for part in inputs if part not in columns]
        of_rows, of_columns = ({dtypes[part] for part in each} for each in (rows, columns))
        kind = "centered" if self.is_centered else "residual" if "residual" in inputs else "plain"
        known = of_rows if hasattr(words, "is_of_one_dtype") else {*of_rows, "float32"}
        most = 2 if hasattr(words, "takes_both_dtypes") else 1
        if len(of_rows) != 1 or not of_columns <= known or len(of_columns) > most:
            return None
        if (epilogue := write_epilogue(self.expression, language, columns, kind)) is None:
            return None
        return fill_in(
            "row_norm",
            language,
            title=self.title,
            does=self.does,
            formula=self.short_equation or self.equation,
            note=self.note,
            rounded=f". {self.note}" if self.note else ", rounded once.",
            epilogue=epilogue,
            inputs=inputs,
            outputs=list(self.outputs),
            arguments=", ".join([*self.arguments, *self.outputs]),
            rows=rows,
            columns=columns,
            types={part: "Weight" if part in columns else "Element" for part in inputs},  # may be float32
            is_centered=self.is_centered,
        )

    def finish(self, scaled: torch.Tensor, inputs: Inputs) -> torch.Tensor:
        """The epilogue: what becomes of the scaled rows before they are rounded, all in float64."""
        return scaled

    def bound_error(self, scaled: torch.Tensor, inputs: Inputs) -> torch.Tensor | None:
        """The error that the epilogue's outputs may have beyond their dtype's tolerance; None if nothing cancels."""
        return None

    def more_outputs(self, scaled: torch.Tensor, inputs: Inputs) -> Mapping[str, ExactOutput]:
        """Other outputs than `out`, of scaled rows."""
        return {}

    def compute_exact(self, inputs: Inputs, dtypes: Mapping[str, torch.dtype]) -> Mapping[str, ExactOutput]:
        """Compute the outputs in float64 and round them once."""
        return compute_by_blocks(inputs, lambda rows: self.compute_rows(rows, {**dtypes, "x": inputs["x"].dtype}))

    def compute_rows(self, inputs: Inputs, dtypes: Mapping[str, torch.dtype]) -> dict[str, ExactOutput]:
        """The same for some rows, of inputs in float64; `dtypes` has that of x in the call too."""

        def finish(scaled: torch.Tensor) -> torch.Tensor:
            return round_once(self.finish(scaled, inputs), dtypes["out"])

        x = inputs["x"]
        normalized = x * find_rstd(x, inputs["eps"])
        scaled = APPLY_WEIGHT[self.convention](normalized, inputs.get("weight"), dtypes["x"])
        other = _scale_otherwise(normalized, inputs["weight"], dtypes["x"]) if self.convention == "llama" else None
        return {
            "out": ExactOutput(
                finish(scaled),
                self.bound_error(scaled, inputs),
                is_strict=self.is_strict,
                common_error=float32_statistic_error(x.shape[1]),
                alternative=None if other is None else finish(other),
            ),
            **self.more_outputs(scaled, inputs),
        }

    def mistakes(self, output: str, inputs: Inputs, rows: torch.Tensor, columns: torch.Tensor) -> Iterable[Mistake]:
        """The usual wrong formulas of RMSNorm, and of the epilogue."""
        x = inputs["x"]
        everything = torch.arange(x.shape[1], device=rows.device)
        chosen, looked_at = (everything, columns) if self.needs_whole_rows else (columns, None)
        epilogue, wrong = self.describe_epilogue(output, x.dtype)
        form = getattr(torch, self.dtypes[output]) if output in self.dtypes else None
        called = self.convention, form, looked_at, self.is_centered
        return self.list_mistakes(Rows(inputs, rows, chosen, x.dtype, epilogue, wrong, *called))

    def list_mistakes(self, rows: Rows) -> Iterable[Mistake]:
        """The same for some rows, whose epilogue is known."""
        others = OPERATORS if type(self).finish is RmsNorm.finish else ()
        return usual_mistakes(rows, operators={each.convention: each.name for each in others})

    def list_wrong_epilogues(self, dtype: torch.dtype) -> Iterable[Wrong]:
        """The usual mistakes in `finish`, for x of this dtype."""
        return ()

    def describe_epilogue(self, output: str, dtype: torch.dtype) -> tuple[Epilogue, tuple[Wrong, ...]]:
        """The last step of an output of scaled rows, and the usual mistakes in it, for x of this dtype."""
        return self.finish, tuple(self.list_wrong_epilogues(dtype))

    def count_cost(self, sizes: Mapping[str, int]) -> Cost:
        """Count the operations of each element and each row."""
        element, (row, which) = len(self.steps), self.steps_of_row
        return Cost(
            flops=sizes["rows"] * (element * sizes["hidden"] + row),
            how=f"{element} operations an element ({', '.join(self.steps)}) and {row} a row ({which})",
        )


def _scale_otherwise(normalized: torch.Tensor, weight: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Scale by the other rounding that float32 may give: a normalized value near a tie can round to either side.

    Near means within the error of a statistic in float32.
    """
    error = float32_statistic_error(normalized.shape[1])
    exact, low, high = (round_once(normalized * factor, dtype) for factor in (1, 1 - error, 1 + error))
    return torch.where(low == exact, high, low).to(normalized.dtype) * weight


class RmsNormLlama(RmsNorm):
    """RMSNorm that rounds the normalized row to the dtype of x before the weight, as Hugging Face's LlamaRMSNorm."""

    name = "rmsnorm_llama"
    convention = "llama"
    casts_inputs = False
    equation = "out = weight * (x * rsqrt(mean(x^2) + eps))"
    rounding = (
        "where the product in brackets is computed in float32 and cast to the dtype of x before it is multiplied by "
        "the weight."
    )
    says = "RMSNorm in float32, cast to the dtype of x before the weight, as in Hugging Face's LlamaRMSNorm."
    end = ("return weight * (x_fp32 * rstd).to(x.dtype)",)
    title = "Llama's RMSNorm"
    expression = "round(x * rstd) * weight"
    note = "The product in brackets is rounded to the dtype of x before the weight."


class RmsNormGemma(RmsNorm):
    """RMSNorm that multiplies by 1 + weight, as Gemma does."""

    name = "rmsnorm_gemma"
    convention = "gemma"
    equation = "out = x * rsqrt(mean(x^2) + eps) * (1 + weight)"
    says = "RMSNorm times 1 + weight in float32, cast to the dtype of x once at the end, as in Gemma."
    end = ("return (x_fp32 * rstd * (1.0 + weight.to(torch.float32))).to(x.dtype)",)
    title = "Gemma's RMSNorm"
    does = "Normalize the rows of x, (batch, hidden), and scale them by 1 + weight, (hidden,)."
    expression = "x * rstd * (weight + 1)"


OPERATORS = (RmsNorm(), RmsNormLlama(), RmsNormGemma())
