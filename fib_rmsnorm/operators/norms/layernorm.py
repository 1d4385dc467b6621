"""LayerNorm: `out = (x - mean(x)) * rsqrt(var(x) + eps) * weight + bias` (Ba et al. 2016, arXiv:1607.06450)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from fib_rmsnorm.operators.norms.float64_rows import float32_statistic_error, round_once, split_rows
from fib_rmsnorm.operators.norms.hard_rows import (
    HARD_ROWS,
    Kinds,
    choose_other_eps,
    count_eps,
    count_rotations,
    fill_rows,
    make_hard_weight,
    rotate_kinds,
    scale_near_eps,
)
from fib_rmsnorm.operators.norms.norm_definitions import (
    BIAS,
    DTYPE,
    DTYPES,
    HIDDEN,
    NUMBER,
    PER_COLUMN,
    PER_ELEMENT,
    NormTensor,
    check_hidden,
    list_matches,
    make_definition,
    read_dtype,
)
from fib_rmsnorm.operators.norms.norm_kernels import NormKernel
from fib_rmsnorm.operators.norms.norm_operator import RowOperator
from fib_rmsnorm.operators.operator import Cost, ExactOutput, HardCase, Mistake, Parts, Scalar

if TYPE_CHECKING:
    import torch

    from fib_rmsnorm.schema import Definition

_REFERENCE = '''\
import torch


def run(x, weight, eps):
    """LayerNorm in float32, cast to the dtype of x once at the end."""
    x_fp32 = x.to(torch.float32)
    centered = x_fp32 - x_fp32.mean(dim=-1, keepdim=True)
    rstd = torch.rsqrt(centered.pow(2).mean(dim=-1, keepdim=True) + eps)
    return (centered * rstd * weight.to(torch.float32)).to(x.dtype)
'''
_REFERENCE_WITH_BIAS = _REFERENCE.replace("x, weight, eps", "x, weight, bias, eps").replace(
    "weight.to(torch.float32))", "weight.to(torch.float32) + bias.to(torch.float32))"
)

_KERNEL = NormKernel(
    title="LayerNorm",
    formula="out = (x - mean) * rsqrt(var + eps) * weight",
    returns="Return x, (batch, hidden), with each row normalized and scaled by weight, (hidden,).",
    writes="Write the normalized rows of x, (batch, hidden), scaled by weight, (hidden,), to out, (batch, hidden).",
    epilogues={
        "python": "return (centered * rstd * weight.float()).to(x.dtype)",
        "triton": """\
out = (x - mean) * rstd * weight
tl.store(out_ptr + cols, out.to(out_ptr.dtype.element_ty), mask=cols < HIDDEN)""",
        "cpp": """\
const float normalized = (static_cast<float>(x[col]) - mean) * rstd;
out[col] = static_cast<Element>(normalized * static_cast<float>(weight[col]));""",
        "tilelang": """\
scale = rstd[0] * T.cast(weight[col], "float32")
centered = (T.cast(x[row, col], "float32") - mean[0]) * scale
out[row, col] = T.cast(centered, dtype)""",
        "cutedsl": """\
centered = (x[row, col].to(Float32) - mean) * rstd
out[row, col] = (centered * weight[col].to(Float32)).to(out.element_type)""",
    },
)
_KERNEL_WITH_BIAS = NormKernel(
    title="LayerNorm",
    formula="out = (x - mean) * rsqrt(var + eps) * weight + bias",
    returns=(
        "Return x, (batch, hidden), with each row normalized, scaled by weight and shifted by bias, both (hidden,)."
    ),
    writes="Write the normalized rows of x, (batch, hidden), scaled by weight and shifted by bias, (hidden,), to out.",
    epilogues={
        "python": "return (centered * rstd * weight.float() + bias.float()).to(x.dtype)",
        "triton": """\
out = (x - mean) * rstd * weight + bias
tl.store(out_ptr + cols, out.to(out_ptr.dtype.element_ty), mask=cols < HIDDEN)""",
        "cpp": """\
const float normalized = (static_cast<float>(x[col]) - mean) * rstd;
out[col] = static_cast<Element>(normalized * static_cast<float>(weight[col]) + static_cast<float>(bias[col]));""",
        "tilelang": """\
scale = rstd[0] * T.cast(weight[col], "float32")
centered = (T.cast(x[row, col], "float32") - mean[0]) * scale
out[row, col] = T.cast(centered + T.cast(bias[col], "float32"), dtype)""",
        "cutedsl": """\
centered = (x[row, col].to(Float32) - mean) * rstd
out[row, col] = (centered * weight[col].to(Float32) + bias[col].to(Float32)).to(out.element_type)""",
    },
)
_TENSORS = {
    "x": NormTensor(PER_ELEMENT, "Activations, contiguous by rows."),
    "weight": NormTensor(PER_COLUMN, "Learned scale of each hidden element."),
    "bias": NormTensor(PER_COLUMN, "Learned shift of each hidden element, added last."),
    "eps": NormTensor(NUMBER, "Added to the variance before the reciprocal square root."),
    "out": NormTensor(PER_ELEMENT, "Activations, normalized and scaled, and shifted if there is a bias."),
}
_ARGUMENTS = ("x", "weight", "eps")
_ARGUMENTS_WITH_BIAS = ("x", "weight", "bias", "eps")

_CANCELLED = "half of the row cancels with the bias (what is rounded before the bias shows)"
_KINDS: Kinds = {
    **HARD_ROWS,
    # In bfloat16, all but a few elements of the first are 1000.
    "x + 1000 (a mean far above the deviations: E[x^2] - E[x]^2 has no digits left)": lambda x: x + 1000,
    "x - 3000 (a mean far above the deviations: E[x^2] - E[x]^2 has no digits left)": lambda x: x - 3000,
}
_KINDS_WITH_BIAS: Kinds = {_CANCELLED: lambda x: x, **_KINDS}


class LayerNormOperator(RowOperator):
    """The operator LayerNorm over the last axis, with a weight and perhaps a bias: in float32 and rounded once."""

    name = "layernorm"
    formula = (
        "out = (x - mean(x)) * rsqrt(mean((x - mean(x))^2) + eps) * weight (+ bias), computed in float32 and cast once "
        "at the end."
    )
    options = (HIDDEN, DTYPE, BIAS)
    arguments = _ARGUMENTS
    reference = _REFERENCE
    scalars: ClassVar[Mapping[str, Scalar]] = {"eps": Scalar(1e-6, least=0)}
    probe_sizes: ClassVar[Mapping[str, int]] = {"rows": 10, "hidden": 256}

    def define(self, hidden: int = 4096, dtype: str = "float16", bias: bool = False) -> Definition:
        """Make the Definition `layernorm_d{hidden}` or `layernorm_bias_d{hidden}`, with a suffix as RMSNorm's.

        Raises InputError if the hidden size is not a positive multiple of 128 up to 2^20, or if the dtype is unknown.
        """
        hidden, dtype = check_hidden(hidden), read_dtype(dtype)
        arguments, reference = self.list_references()[bias]
        formula = self.formula.replace(" (+ bias)", " + bias" if bias else "")
        definition = make_definition(
            f"{self.name}{'_bias' if bias else ''}_d{hidden}{DTYPES[dtype]}",
            formula,
            hidden,
            _TENSORS,
            {part: "float32" if part == "eps" else dtype for part in arguments},
            {"out": dtype},
            reference,
        )
        return definition.model_copy(update={"description": f"Layer normalization over the hidden axis: {formula}"})

    def list_references(self) -> list[tuple[tuple[str, ...], str]]:
        """One without a bias, and one with it."""
        return [(_ARGUMENTS, _REFERENCE), (_ARGUMENTS_WITH_BIAS, _REFERENCE_WITH_BIAS)]

    def list_parts(self, definition: Definition) -> list[Parts]:
        """Match the tensors by shapes and dtypes, those of one shape in all orders; bias and eps may be missing."""
        specs = {**definition.inputs, **definition.outputs}
        if any(spec.dtype.value not in DTYPES for spec in specs.values()):
            return []
        shapes = {part: tensor.shape for part, tensor in _TENSORS.items()}
        matches = [
            parts
            for arguments, _ in self.list_references()
            for parts in list_matches(definition, {part: shapes[part] for part in arguments}, {"out": shapes["out"]})
        ]
        return [parts for parts in matches if specs[parts.tensors["out"]].dtype == specs[parts.tensors["x"]].dtype]

    def write_kernel(self, dtypes: Mapping[str, str], language: str) -> str | None:
        """Write the kernel, which takes any rows, of float16, bfloat16 or float32 throughout."""
        if len({dtype for part, dtype in dtypes.items() if part != "eps"}) > 1:
            return None
        kernel, arguments = (_KERNEL_WITH_BIAS, _ARGUMENTS_WITH_BIAS) if "bias" in dtypes else (_KERNEL, _ARGUMENTS)
        return kernel.write(language, arguments, ("out",), _TENSORS, is_centered=True)

    def count_hard_cases(self, sizes: Mapping[str, int], constants: Mapping[str, float]) -> int:
        """The number of cases in which every kind of row meets every value of eps, even with one row per batch.

        Then come those of the extreme rows.
        """
        rows = sizes["rows"]
        return count_eps(constants) * count_rotations(len(_KINDS_WITH_BIAS), rows) + self.count_extreme_cases(rows)

    def make_hard_case(
        self, inputs: Mapping[str, Any], constants: Mapping[str, float], index: int, seed: str
    ) -> HardCase:
        """Make rows of every hard kind in turn, with hard weights and a bias that cancels; later cases change eps."""
        rows, eps = inputs["x"].shape[0], inputs["eps"]
        rotations = count_rotations(len(_KINDS_WITH_BIAS), rows)
        if index >= count_eps(constants) * rotations:
            return self.make_extreme_case(inputs, index - count_eps(constants) * rotations)
        if index >= rotations:
            eps = choose_other_eps(eps, seed)
        kinds = _KINDS_WITH_BIAS if "bias" in inputs else _KINDS
        order = rotate_kinds(kinds, rows, index % rotations)
        changed = {"x": fill_rows(inputs["x"], order, kinds), "weight": make_hard_weight(inputs["weight"]), "eps": eps}
        scale_near_eps(changed, ("x",), order, eps, constants)
        if "bias" in inputs:
            changed["bias"] = make_hard_weight(inputs["bias"])
            place = order.index(_CANCELLED)
            if place < rows:
                scaled = _normalize(changed["x"][place].double(), eps)[0] * changed["weight"].double()
                changed["bias"][1::2] = -scaled[1::2].to(changed["bias"].dtype)
        return HardCase(f"hard rows, eps={eps:g}", changed, order)

    def count_cost(self, sizes: Mapping[str, int]) -> Cost:
        """Count six operations per element and four per row."""
        return Cost(
            flops=sizes["rows"] * (6 * sizes["hidden"] + 4),
            how=(
                "6 operations an element (add, subtract the mean, square, add, times rstd, times weight; not the bias)"
                " and 4 a row (divide twice, add eps, reciprocal square root)"
            ),
        )

    def compute_exact(self, inputs: Mapping[str, Any], dtypes: Mapping[str, torch.dtype]) -> Mapping[str, ExactOutput]:
        """Compute LayerNorm in float64 and round it once, with a bound per element for what cancels.

        A float32 mean is off by `float32_statistic_error` of the mean |x|, and so is x - mean, before rstd and the
        weight multiply it. The sum with the bias may cancel too. A wrong mean makes the variance larger by the square
        of its error.
        """
        import torch

        x = inputs["x"]
        error = float32_statistic_error(x.shape[1])
        out = torch.empty_like(x, dtype=dtypes["out"])
        bound = torch.empty_like(x, dtype=torch.bfloat16)  # the size of an error matters, not its digits
        for block in split_rows(inputs):
            wide, weight = block.inputs["x"], block.inputs["weight"]
            bias = block.inputs.get("bias", torch.zeros_like(weight))
            normalized, rstd = _normalize(wide, inputs["eps"])
            scaled = normalized * weight
            out[block.rows] = round_once(scaled + bias, out.dtype)
            mean_error = error * wide.abs().mean(dim=-1, keepdim=True) * rstd
            terms = (error * wide.abs() * rstd + mean_error) * weight.abs() + error * bias.abs()
            bound[block.rows] = (terms + mean_error.square() * scaled.abs()).to(bound.dtype)
        return {"out": ExactOutput(out, bound, common_error=error)}

    def mistakes(
        self, output: str, inputs: Mapping[str, Any], rows: torch.Tensor, columns: torch.Tensor
    ) -> Iterable[Mistake]:
        """The usual wrong formulas of LayerNorm."""
        from fib_rmsnorm.operators.norms.mistakes.layernorm_mistakes import usual_mistakes
        from fib_rmsnorm.operators.norms.mistakes.rows import CenteredRows

        return usual_mistakes(CenteredRows(inputs, rows, columns))


def _normalize(x: torch.Tensor, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Normalize rows of float64 without a weight; also returns the reciprocal root of each, [..., 1]."""
    import torch

    centered = x - x.mean(dim=-1, keepdim=True)
    rstd = torch.rsqrt(centered.square().mean(dim=-1, keepdim=True) + eps)
    return centered * rstd, rstd


OPERATORS = (LayerNormOperator(),)
