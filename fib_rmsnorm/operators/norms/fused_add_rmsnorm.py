"""Add + RMSNorm: `new_residual = x + residual`, and RMSNorm of the sum, in the conventions of libraries.

A Definition may have the normalized rows as its only output, as flashinfer-bench's `fused_add_rmsnorm_h*` do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from fib_rmsnorm.operators.norms.float64_rows import FLOAT32_EPS, join_rows, round_once, split_rows
from fib_rmsnorm.operators.norms.hard_rows import (
    EXTREME_ROWS,
    LIMITS,
    NEAR_EPS,
    Kinds,
    make_non_finite_kinds,
    scale_to_reach,
)
from fib_rmsnorm.operators.norms.norm_definitions import (
    DTYPE,
    HIDDEN,
    NUMBER,
    PER_COLUMN,
    PER_ELEMENT,
    NormTensor,
    list_matches,
)
from fib_rmsnorm.operators.norms.norm_kernels import NormKernel
from fib_rmsnorm.operators.norms.norm_operator import NormOperator
from fib_rmsnorm.operators.norms.rmsnorm import RmsNorm, RmsNormGemma, RmsNormLlama
from fib_rmsnorm.operators.operator import ExactOutput, Mistake, Parts

if TYPE_CHECKING:
    import torch

    from fib_rmsnorm.schema import Definition

TENSORS: Mapping[str, NormTensor] = {
    "x": NormTensor(PER_ELEMENT, "Activations, contiguous by rows."),
    "residual": NormTensor(PER_ELEMENT, "What is added to them: the sum of all layers before."),
    "weight": NormTensor(PER_COLUMN, "Learned scale of each hidden element."),
    "eps": NormTensor(NUMBER, "Added to the mean square before the reciprocal square root."),
    "out": NormTensor(PER_ELEMENT, "The sum, normalized and scaled."),
    "new_residual": NormTensor(PER_ELEMENT, "The sum, rounded to the dtype of the residual."),
}
"""The inputs and outputs of its own Definitions, by their parts."""

_Pair = tuple["torch.Tensor", "torch.Tensor"]
_Transform = Callable[["torch.Tensor", "torch.Tensor"], _Pair]


def _nearly_cancel(x: torch.Tensor, residual: torch.Tensor) -> _Pair:
    """Leave a few units in the last place of each x."""
    import torch

    steps = 4 * torch.finfo(x.dtype).eps * residual.float().sign()
    return x, -(x.float() * (1 + steps)).to(x.dtype)


def _huge_sum_somewhere(x: torch.Tensor, residual: torch.Tensor, value: float) -> _Pair:
    import torch

    rows = torch.arange(x.shape[0], device=x.device)
    for tensor in (x, residual):
        tensor[rows, (rows * 977 + 13) % x.shape[1]] = value
    return x, residual


def _huge_column(x: torch.Tensor, residual: torch.Tensor, column: int) -> _Pair:
    x[:, column] = 60000.0
    return x, residual


# The name of a kind of row says what it breaks, in words that hold for every dtype. 65504 is the maximum of float16.
_ROW_KINDS: dict[str, _Transform] = {
    "residual scaled by 300 (squares of the sum above 65504)": lambda x, residual: (x, residual * 300),
    NEAR_EPS: lambda x, residual: (x, residual),
    "x and residual scaled by 1e-4 (eps dominates)": lambda x, residual: (x * 1e-4, residual * 1e-4),
    "residual = -x (the sum is zero)": lambda x, residual: (x, -x),
    "residual near -x (the sum cancels)": _nearly_cancel,
    "huge first column": lambda x, residual: _huge_column(x, residual, 0),
    "huge last column": lambda x, residual: _huge_column(x, residual, -1),
    "constant row": lambda x, residual: (x * 0 + 3.0, residual * 0 + 1.0),
    "x and residual scaled by 1e-6 (nearly zero)": lambda x, residual: (x * 1e-6, residual * 1e-6),
    "x and residual as large as their dtype allows (above 65504, but in float16)": lambda x, residual: (
        scale_to_reach(x),
        scale_to_reach(residual),
    ),
}
_SUMMED = ("x", "residual")
_UNROUNDED_KINDS = {
    **_ROW_KINDS,
    "one sum of 80000 (above 65504)": lambda x, r: _huge_sum_somewhere(x, r, 40000.0),
}
_ROUNDED_KINDS = {**_ROW_KINDS, "one sum of 60000": lambda x, r: _huge_sum_somewhere(x, r, 30000.0)}


class FusedAddRmsNorm(NormOperator):
    """Add and normalize in float32, as FlashInfer, Quack and flashinfer-bench do: the unrounded sum is normalized."""

    name: ClassVar[str] = "fused_add_rmsnorm"
    """The start of its Definitions' names."""
    formula: ClassVar[str] = (
        "new_residual = x + residual; out = s * rsqrt(mean(s^2) + eps) * weight, where s is the sum in float32 before "
        "it is rounded to new_residual."
    )
    norm: ClassVar[RmsNorm] = RmsNorm()
    """What is computed of the sum."""
    rounds_sum: ClassVar[bool] = False
    """Whether the sum is rounded to the dtype of x before it is normalized."""
    kernel: ClassVar[NormKernel | None] = NormKernel(
        title="Add + RMSNorm",
        formula="new_residual = x + residual, and out = its RMSNorm * weight",
        returns=(
            "Return the rows of x + residual, (batch, hidden), normalized and scaled by weight, (hidden,), and the sum."
        ),
        writes=(
            "Write x + residual, (batch, hidden), to new_residual, and its normalized rows, scaled by weight, to out."
        ),
        epilogues={
            "python": "return (total * rstd * weight.float()).to(x.dtype), total.to(residual.dtype)",
            "triton": """\
tl.store(out_ptr + cols, ((x + residual) * rstd * weight).to(out_ptr.dtype.element_ty), mask=cols < HIDDEN)""",
            "cpp": "out[col] = static_cast<Element>(value * rstd * static_cast<float>(weight[col]));",
            "tilelang": """\
value = T.cast(x[row, col], "float32") + T.cast(residual[row, col], "float32")
out[row, col] = T.cast(value * rstd[0] * T.cast(weight[col], "float32"), dtype)
new_residual[row, col] = T.cast(value, dtype)""",
            "cutedsl": """\
value = x[row, col].to(Float32) + residual[row, col].to(Float32)
out[row, col] = (value * rstd * weight[col].to(Float32)).to(out.element_type)
new_residual[row, col] = value.to(out.element_type)""",
        },
    )
    options = (HIDDEN, DTYPE)
    tensors = TENSORS
    arguments: ClassVar[tuple[str, ...]] = ("x", "residual", "weight", "eps")
    reference: ClassVar[str] = '''\
import torch


def run(x, residual, weight, eps):
    """Add and normalize in float32; round both outputs once at the end."""
    total = x.to(torch.float32) + residual.to(torch.float32)
    mean_square = total.pow(2).mean(dim=-1, keepdim=True)
    rstd = torch.rsqrt(mean_square + eps)
    return (total * rstd * weight.to(torch.float32)).to(x.dtype), total.to(residual.dtype)
'''
    extreme_kinds: ClassVar[Mapping[str, Kinds]] = {
        "x": EXTREME_ROWS,
        "residual": {**make_non_finite_kinds("residual"), LIMITS: lambda residual: residual * 0},
    }
    near_eps = _SUMMED
    steps: ClassVar[tuple[str, ...]] = ("add the residual", "square", "add", "times rstd", "times weight")

    def list_parts(self, definition: Definition) -> list[Parts]:
        """The outputs in all orders, those named for the residual first; x and the residual can be exchanged."""
        shapes = {part: tensor.shape for part, tensor in self.tensors.items()}
        inputs = {part: shapes[part] for part in self.arguments}
        outputs = {part: shapes[part] for part in self.outputs[: len(definition.outputs)]}
        specs = {**definition.inputs, **definition.outputs}
        found: dict[tuple[str, ...], Parts] = {}
        for parts in sorted(list_matches(definition, inputs, outputs), key=_by_name):
            dtypes = {part: specs[name].dtype.value for part, name in parts.tensors.items()}
            shared = (part for part in dtypes.keys() - self.dtypes.keys() if shapes[part] == PER_ELEMENT)
            if self._takes(dtypes) and {dtypes[part] for part in shared} == {dtypes["x"]}:
                others = (name for part, name in parts.tensors.items() if part not in _SUMMED)
                found.setdefault(tuple(others), parts)
        return list(found.values())

    def write_kernel(self, dtypes: Mapping[str, str], language: str) -> str | None:
        """Write the kernel, which writes both outputs and takes one dtype throughout."""
        is_one = dtypes.get("new_residual") == dtypes["weight"]
        return super().write_kernel(dtypes, language) if is_one else None

    @property
    def _pair_kinds(self) -> dict[str, _Transform]:
        return _ROUNDED_KINDS if self.rounds_sum else _UNROUNDED_KINDS

    @property
    def _kinds(self) -> list[str]:
        return list(self._pair_kinds)

    def make_hard_rows(self, inputs: Mapping[str, Any], order: Sequence[str]) -> dict[str, Any]:
        """Make rows of x and of the residual hard, which depend on each other."""
        x, residual = inputs["x"].clone(), inputs["residual"].clone()
        for offset, kind in enumerate(order[: x.shape[0]]):
            chosen = slice(offset, None, len(order))
            x[chosen], residual[chosen] = self._pair_kinds[kind](x[chosen].clone(), residual[chosen].clone())
        return {"x": x, "residual": residual}

    def compute_exact(self, inputs: Mapping[str, Any], dtypes: Mapping[str, torch.dtype]) -> Mapping[str, ExactOutput]:
        """Add in float64 and normalize the sum, rounded first if the convention says so.

        There is no bound beyond the tolerance: one addition is exact to half a unit of its result, even where it
        cancels.
        """
        return join_rows(self._compute_blocks(inputs, dtypes), inputs["x"].shape[0])

    def _compute_blocks(
        self, inputs: Mapping[str, Any], dtypes: Mapping[str, torch.dtype]
    ) -> Iterator[tuple[slice, dict[str, ExactOutput]]]:
        for block in split_rows(inputs):
            total = block.inputs["x"] + block.inputs["residual"]
            exact = dict(self.norm.compute_exact(self._replace_x(inputs, total), dtypes))
            if "new_residual" in dtypes:
                exact["new_residual"] = ExactOutput(round_once(total, dtypes["new_residual"]), common_error=FLOAT32_EPS)
            yield block.rows, exact

    def compute_alternatives(
        self, inputs: Mapping[str, Any], dtypes: Mapping[str, torch.dtype]
    ) -> Mapping[str, torch.Tensor]:
        """The other outputs that float32 may give, where the convention rounds between the root and the weight."""
        import torch

        found = []
        for block in split_rows(inputs):
            total = block.inputs["x"] + block.inputs["residual"]
            found.append(self.norm.compute_alternatives(self._replace_x(inputs, total), dtypes))
        return {part: torch.cat([each[part] for each in found]) for part in found[0]}

    def _replace_x(self, inputs: Mapping[str, Any], total: torch.Tensor) -> dict[str, Any]:
        """The norm's inputs: with a sum in float64, or rounded to the dtype of x, for x."""
        summed = round_once(total, inputs["x"].dtype) if self.rounds_sum else total
        return {**{part: value for part, value in inputs.items() if part != "residual"}, "x": summed}

    def mistakes(
        self, output: str, inputs: Mapping[str, Any], rows: torch.Tensor, columns: torch.Tensor
    ) -> Iterable[Mistake]:
        """The usual wrong formulas of the sum, and of what is computed of it."""
        from fib_rmsnorm.operators.norms.mistakes.residual_mistakes import Sums, wrong_outputs, wrong_residuals

        sums = Sums(inputs, rows, columns)
        if output == "new_residual":
            return wrong_residuals(sums)
        return wrong_outputs(sums, self.norm.convention, rounds_sum=self.rounds_sum)


def _by_name(parts: Parts) -> int:
    """How many of the parts of the residual are played by tensors that are not called so."""
    names = [parts.tensors[part] for part in ("residual", "new_residual") if part in parts.tensors]
    return sum("res" not in name.lower() for name in names)


class FusedAddRmsNormRounded(FusedAddRmsNorm):
    """Round the sum to the dtype of x before it is normalized, as torch does for `F.rms_norm(x + residual)`."""

    name = "fused_add_rmsnorm_rounded"
    kernel = None
    formula = (
        "new_residual = x + residual; out = new_residual * rsqrt(mean(new_residual^2) + eps) * weight, computed in "
        "float32 from the rounded sum and cast once at the end."
    )
    rounds_sum = True
    reference = '''\
import torch


def run(x, residual, weight, eps):
    """Add in the dtype of x, then RMSNorm of the rounded sum in float32, cast once at the end."""
    total = x + residual
    total_fp32 = total.to(torch.float32)
    mean_square = total_fp32.pow(2).mean(dim=-1, keepdim=True)
    rstd = torch.rsqrt(mean_square + eps)
    return (total_fp32 * rstd * weight.to(torch.float32)).to(x.dtype), total
'''


class FusedAddRmsNormLlama(FusedAddRmsNorm):
    """Round the sum, and the normalized rows before the weight, as Hugging Face's Llama, vLLM and Liger do."""

    name = "fused_add_rmsnorm_llama"
    kernel = None
    formula = (
        "new_residual = x + residual; out = weight * (new_residual * rsqrt(mean(new_residual^2) + eps)), where the "
        "product in brackets is computed in float32 from the rounded sum and cast to the dtype of x before the weight."
    )
    norm = RmsNormLlama()
    rounds_sum = True
    reference = '''\
import torch


def run(x, residual, weight, eps):
    """Add in the dtype of x, then RMSNorm in float32, cast before the weight, as in Hugging Face's Llama."""
    total = x + residual
    total_fp32 = total.to(torch.float32)
    mean_square = total_fp32.pow(2).mean(dim=-1, keepdim=True)
    rstd = torch.rsqrt(mean_square + eps)
    return weight * (total_fp32 * rstd).to(x.dtype), total
'''


class FusedAddRmsNormGemma(FusedAddRmsNorm):
    """Multiply by 1 + weight, as FlashInfer's `gemma_fused_add_rmsnorm` does."""

    name = "fused_add_rmsnorm_gemma"
    kernel = None
    formula = (
        "new_residual = x + residual; out = s * rsqrt(mean(s^2) + eps) * (1 + weight), where s is the sum in float32 "
        "before it is rounded to new_residual."
    )
    norm = RmsNormGemma()
    reference = '''\
import torch


def run(x, residual, weight, eps):
    """Add, normalize and multiply by 1 + weight in float32; round both outputs once at the end."""
    total = x.to(torch.float32) + residual.to(torch.float32)
    mean_square = total.pow(2).mean(dim=-1, keepdim=True)
    rstd = torch.rsqrt(mean_square + eps)
    return (total * rstd * (1.0 + weight.to(torch.float32))).to(x.dtype), total.to(residual.dtype)
'''


OPERATORS = (FusedAddRmsNorm(), FusedAddRmsNormRounded(), FusedAddRmsNormLlama(), FusedAddRmsNormGemma())
