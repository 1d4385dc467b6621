"""The backward passes of RMSNorm and LayerNorm: the gradients of x, of the weight, and of the bias.

The statistics of the rows are inputs, as in Quack, Liger and torch: the forward pass keeps them in float32. As there
too, the gradients of the weight and the bias are sums over all rows in float32, rounded to the weight's dtype.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from fib_rmsnorm.operators.kernel_templates import fill_in
from fib_rmsnorm.operators.norms.float64_rows import split_rows
from fib_rmsnorm.operators.norms.hard_rows import (
    LIMITS,
    NAME,
    choose_other_eps,
    count_rotations,
    make_hard_weight,
)
from fib_rmsnorm.operators.norms.norm_definitions import (
    DTYPE,
    DTYPES,
    HIDDEN,
    PER_COLUMN,
    PER_ELEMENT,
    PER_ROW,
    NormTensor,
    check_hidden,
    list_matches,
    make_definition,
    read_dtype,
)
from fib_rmsnorm.operators.norms.norm_operator import RowOperator
from fib_rmsnorm.operators.norms_backward.hard_pairs import EXTREME_KINDS, KINDS, Kind, fill_pairs
from fib_rmsnorm.operators.norms_backward.norm_gradients import compute_gradients
from fib_rmsnorm.operators.operator import Cost, ExactOutput, HardCase, Mistake, Parts

if TYPE_CHECKING:
    import torch

    from fib_rmsnorm.schema import Definition

TENSORS: Mapping[str, NormTensor] = {
    "dy": NormTensor(PER_ELEMENT, "Gradient of the norm's output, contiguous by rows."),
    "x": NormTensor(PER_ELEMENT, "Activations that were normalized."),
    "weight": NormTensor(PER_COLUMN, "Learned scale of each hidden element."),
    "dnew_residual": NormTensor(PER_ELEMENT, "Gradient of the new residual, the forward pass's second output."),
    "mean": NormTensor(PER_ROW, "Mean of each row of x, kept by the forward pass."),
    "rstd": NormTensor(PER_ROW, "What the forward pass multiplied each row by, and kept."),
    "dx": NormTensor(PER_ELEMENT, "Gradient of x."),
    "dweight": NormTensor(PER_COLUMN, "Gradient of the weight: a sum over all rows."),
    "dbias": NormTensor(PER_COLUMN, "Gradient of the bias: a sum over all rows."),
}
"""The inputs and outputs of the Definitions of backward passes, by their parts."""

_STATISTICS = ("mean", "rstd")
_EPS = 1e-6
"""The eps of the forward pass that kept rstd."""
_CALLED = {
    "dy": r"^(d|g)_?(y|o|out|output|z)$|grad|^g$",
    "dnew_residual": r"^(d|g).*res|res.*grad",
    "mean": r"mean|^mu$",
    "dbias": r"bias|beta|^d?b$",
}
"""What a tensor may be called, of those that others of their shape may be taken for."""


class RmsNormBackward(RowOperator):
    """The gradients of RMSNorm: computed in float32 and rounded once."""

    name: ClassVar[str] = "rmsnorm_backward"
    """The start of its Definitions' names."""
    formula: ClassVar[str] = (
        "dx = (w - n * mean(w * n)) * rstd, dweight = sum(dy * n) over rows, where n = x * rstd and w = dy * weight, "
        "computed in float32 and cast once at the end."
    )
    norm: ClassVar[str] = "RMSNorm"
    """What its gradients are of, in the first line of a kernel to start from."""
    options = (HIDDEN, DTYPE)
    tensors: ClassVar[Mapping[str, NormTensor]] = TENSORS
    """What a Definition says of each tensor."""
    arguments: ClassVar[tuple[str, ...]] = ("dy", "x", "weight", "rstd")
    outputs: ClassVar[tuple[str, ...]] = ("dx", "dweight")
    derived: ClassVar[tuple[str, ...]] = ("rstd",)
    kinds: ClassVar[Mapping[str, Kind]] = KINDS
    """The kinds of hard rows, each of x and dy."""
    steps: ClassVar[tuple[int, int]] = (9, 1)
    """The number of operations of an element, and of a row."""
    reference: ClassVar[str] = '''\
import torch


def run(dy, x, weight, rstd):
    """The gradients of RMSNorm in float32, each cast once at the end; rstd is the forward pass's."""
    normalized = x.to(torch.float32) * rstd[:, None]
    scaled = dy.to(torch.float32) * weight.to(torch.float32)
    dx = (scaled - normalized * (scaled * normalized).mean(dim=-1, keepdim=True)) * rstd[:, None]
    dweight = (dy.to(torch.float32) * normalized).sum(dim=0)
    return dx.to(x.dtype), dweight.to(weight.dtype)
'''
    probe_sizes: ClassVar[Mapping[str, int]] = {"rows": 12, "hidden": 256}

    def define(self, hidden: int = 4096, dtype: str = "float16") -> Definition:
        """Make the Definition `{name}_d{hidden}`, with the suffix `_bf16` or `_fp32` for other dtypes than float16.

        Raises InputError if the hidden size is not a positive multiple of 128 up to 2^20, or if the dtype is unknown.
        """
        hidden, dtype = check_hidden(hidden), read_dtype(dtype)
        dtypes = {part: "float32" if part in _STATISTICS else dtype for part in (*self.arguments, *self.outputs)}
        definition = make_definition(
            f"{self.name}_d{hidden}{DTYPES[dtype]}",
            self.formula,
            hidden,
            self.tensors,
            {part: dtypes[part] for part in self.arguments},
            {part: dtypes[part] for part in self.outputs},
            self.reference,
        )
        tags = [tag.replace("inference", "training") for tag in definition.tags]
        return definition.model_copy(update={"description": f"Gradients of a norm: {self.formula}", "tags": tags})

    def list_parts(self, definition: Definition) -> list[Parts]:
        """Match the tensors by shapes and dtypes, in all orders; first those whose names say so, then in order."""
        inputs, outputs = ({p: self.tensors[p].shape for p in parts} for parts in (self.arguments, self.outputs))
        specs = {**definition.inputs, **definition.outputs}
        matches = [
            parts
            for parts in list_matches(definition, inputs, outputs)
            if _takes({part: specs[name].dtype.value for part, name in parts.tensors.items()})
        ]
        return sorted(matches, key=_count_unnamed)

    def derive_inputs(self, inputs: Mapping[str, Any]) -> Mapping[str, torch.Tensor]:
        """Compute the statistics of x that the forward pass keeps, with its usual eps: in float64, rounded once."""
        return self._derive(inputs, _EPS)

    def _derive(self, inputs: Mapping[str, Any], eps: float) -> Mapping[str, torch.Tensor]:
        import torch

        x = inputs["x"]
        made = {part: torch.empty(x.shape[0], dtype=torch.float32, device=x.device) for part in self.derived}
        for block in split_rows({"x": x}):
            wide = block.inputs["x"]
            if "mean" in made:
                mean = wide.mean(dim=-1, keepdim=True)
                made["mean"][block.rows] = mean[:, 0].float()
                wide = wide - mean
            made["rstd"][block.rows] = torch.rsqrt(wide.square().mean(dim=-1) + eps).float()
        return made

    def write_kernel(self, dtypes: Mapping[str, str], language: str) -> str | None:
        """Write the kernel, which takes float16, bfloat16 or float32 throughout, statistics apart."""
        if len({dtype for part, dtype in dtypes.items() if part not in _STATISTICS}) > 1:
            return None
        return fill_in(
            "norm_backward",
            language,
            title=self.norm,
            inputs=list(self.arguments),
            outputs=list(self.outputs),
            rows=[part for part in self.arguments if TENSORS[part].shape == PER_ELEMENT],
            statistics=list(self.derived),
            sums=[part for part in self.outputs if part != "dx"],
            has_mean="mean" in self.arguments,
            has_residual="dnew_residual" in self.arguments,
        )

    def count_hard_cases(self, sizes: Mapping[str, int], constants: Mapping[str, float]) -> int:
        """The number of cases in which every kind of row appears, the extreme ones in cases of their own."""
        return sum(count_rotations(len(kinds), sizes["rows"]) for kinds in (self.kinds, EXTREME_KINDS))

    def make_hard_case(
        self, inputs: Mapping[str, Any], constants: Mapping[str, float], index: int, seed: str
    ) -> HardCase:
        """Make rows of every hard kind in turn, with statistics by an eps that nobody knows, and hard weights."""
        rotations = count_rotations(len(self.kinds), inputs["x"].shape[0])
        if index >= rotations:
            return self._make_extreme_case(inputs, index - rotations)
        order, changed = fill_pairs(inputs, self.kinds, index)
        eps = choose_other_eps(_EPS, seed)
        changed |= {"weight": make_hard_weight(inputs["weight"]), **self._derive(changed, eps)}
        return HardCase(f"hard rows, statistics by eps={eps:g}", changed, order)

    def _make_extreme_case(self, inputs: Mapping[str, Any], index: int) -> HardCase:
        """Make rows of every extreme kind in turn, with a weight of ones, where nothing is added to dx."""
        order, changed = fill_pairs(inputs, EXTREME_KINDS, index)
        changed |= {"weight": inputs["weight"] * 0 + 1, **self.derive_inputs(changed)}
        if "dnew_residual" in inputs:
            changed["dnew_residual"] = residual = inputs["dnew_residual"] * 0
            residual[order.index(LIMITS) :: len(order), 1] = math.nan  # where dx is 0
        return HardCase(NAME, changed, order, explains=False)

    def count_cost(self, sizes: Mapping[str, int]) -> Cost:
        """Count the operations of each element and row."""
        element, row = self.steps
        return Cost(
            flops=sizes["rows"] * (element * sizes["hidden"] + row),
            how=f"{element} operations an element and {row} a row (one division for each mean)",
        )

    def compute_exact(self, inputs: Mapping[str, Any], dtypes: Mapping[str, torch.dtype]) -> Mapping[str, ExactOutput]:
        """Compute the gradients in float64 and round them once, with a bound per element, as all of them are sums."""
        return compute_gradients(inputs, dtypes)

    def mistakes(
        self, output: str, inputs: Mapping[str, Any], rows: torch.Tensor, columns: torch.Tensor
    ) -> Iterable[Mistake]:
        """The usual wrong formulas of the gradients."""
        from fib_rmsnorm.operators.norms_backward.mistakes.gradient_mistakes import usual_mistakes

        return usual_mistakes(output, inputs, rows, columns)


class LayerNormBackward(RmsNormBackward):
    """The gradients of LayerNorm with a weight and a bias: computed in float32 and rounded once."""

    name = "layernorm_backward"
    norm = "LayerNorm"
    formula = (
        "dx = (w - mean(w) - n * mean(w * n)) * rstd, dweight = sum(dy * n) and dbias = sum(dy) over rows, where "
        "n = (x - mean) * rstd and w = dy * weight, computed in float32 and cast once at the end."
    )
    arguments = ("dy", "x", "weight", "mean", "rstd")
    outputs = ("dx", "dweight", "dbias")
    derived = ("mean", "rstd")
    kinds: ClassVar[Mapping[str, Kind]] = {
        **KINDS,
        "x + 1000 (a mean far above the deviations)": lambda x, dy: (x + 1000, dy),
    }
    steps = (13, 2)
    reference = '''\
import torch


def run(dy, x, weight, mean, rstd):
    """The gradients of LayerNorm in float32, each cast once at the end; mean and rstd are the forward pass's."""
    normalized = (x.to(torch.float32) - mean[:, None]) * rstd[:, None]
    scaled = dy.to(torch.float32) * weight.to(torch.float32)
    centered = scaled - scaled.mean(dim=-1, keepdim=True)
    dx = (centered - normalized * (scaled * normalized).mean(dim=-1, keepdim=True)) * rstd[:, None]
    dweight = (dy.to(torch.float32) * normalized).sum(dim=0)
    dbias = dy.to(torch.float32).sum(dim=0)
    return dx.to(x.dtype), dweight.to(weight.dtype), dbias.to(weight.dtype)
'''


def _takes(dtypes: Mapping[str, str]) -> bool:
    """Whether the tensors that play the parts may have these dtypes."""
    statistics = {dtype for part, dtype in dtypes.items() if part in _STATISTICS}
    sums = {dtypes[part] for part in ("dweight", "dbias") if part in dtypes}
    rows = {dtype for part, dtype in dtypes.items() if TENSORS[part].shape == PER_ELEMENT}
    is_one = len(rows) == 1 and {*dtypes.values()} <= DTYPES.keys()
    return is_one and statistics == {"float32"} and sums <= {dtypes["weight"], "float32"}


def _count_unnamed(parts: Parts) -> int:
    """The number of tensors that are not called as their parts usually are."""
    names = {part: parts.tensors.get(part, "").lower() for part in _CALLED}
    return sum(re.search(_CALLED[part], name) is None for part, name in names.items())


OPERATORS = (RmsNormBackward(), LayerNormBackward())
