"""RMSNorm: `out = x * rsqrt(mean(x^2) + eps) * weight` (Zhang and Sennrich 2019, arXiv:1910.07467)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.operators.mistake import Mistake
from fib_rmsnorm.operators.norm_options import DTYPE, DTYPES, HIDDEN, check_hidden, read_dtype
from fib_rmsnorm.operators.operator import Cost, ExactOutput, HardCase, Operator, Parts, Scalar
from fib_rmsnorm.operators.rounding import round_once

if TYPE_CHECKING:
    import torch

    from fib_rmsnorm.schema import Definition

REFERENCE = '''\
import torch


def run(x, weight, eps):
    """RMSNorm in float32, cast to the dtype of x once at the end."""
    x_fp32 = x.to(torch.float32)
    mean_square = x_fp32.pow(2).mean(dim=-1, keepdim=True)
    rstd = torch.rsqrt(mean_square + eps)
    return (x_fp32 * rstd * weight.to(torch.float32)).to(x.dtype)
'''

_HERE = Path(__file__).parent

# Primes, because no tile divides them. Few, because some kernels compile for each shape. None near the largest
# batches, because each would add a full-size check.
_AWKWARD_ROWS = (3, 31, 509, 4099)

# The machine epsilons are those of float16, bfloat16 and float32, torch's default.
_USUAL_EPS = (1e-5, 1e-6, 1e-8, 1e-12, 1e-7, 1e-4, 1e-3, 1e-10, 2.0**-10, 2.0**-7, 2.0**-23, 0.0)

# More elements than this at once in float64 would need gigabytes of temporaries.
_CHUNK_ELEMENTS = 1 << 24


def _set_column(x: torch.Tensor, columns: torch.Tensor | int, value: float) -> torch.Tensor:
    import torch

    x[torch.arange(x.shape[0], device=x.device), columns] = value
    return x


def _huge_somewhere(x: torch.Tensor) -> torch.Tensor:
    import torch

    rows = torch.arange(x.shape[0], device=x.device)
    return _set_column(x, (rows * 977 + 13) % x.shape[1], 60000.0)


# The name of a kind of row says what it breaks. 60000 is near float16's maximum of 65504.
_ROW_KINDS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "x scaled by 300 (its squares overflow float16)": lambda x: x * 300,
    "x scaled by 1e-4 (eps dominates)": lambda x: x * 1e-4,
    "zero row": lambda x: x * 0,
    "one huge element": _huge_somewhere,
    "huge last column": lambda x: _set_column(x, -1, 60000.0),
    "constant row": lambda x: x * 0 + 3.0,
    "x scaled by 1e-6 (subnormal in float16)": lambda x: x * 1e-6,
}


Finish = Callable[["torch.Tensor", "torch.Tensor", "torch.dtype"], "torch.Tensor"]


class RmsNorm(Operator):
    """The operator RMSNorm over the last axis, in the convention of torch: computed in float32 and rounded once."""

    name: ClassVar[str] = "rmsnorm"
    """The start of its Definitions' names."""
    convention = "torch"
    formula: ClassVar[str] = "out = x * rsqrt(mean(x^2) + eps) * weight, computed in float32 and cast once at the end."
    options = (HIDDEN, DTYPE)
    arguments = ("x", "weight", "eps")
    reference: ClassVar[str] = REFERENCE
    scalars: ClassVar[Mapping[str, Scalar]] = {"eps": Scalar(1e-6, least=0)}
    sizes: ClassVar[Mapping[str, tuple[int, ...]]] = {"hidden": (4096,)}
    probe_sizes: ClassVar[Mapping[str, int]] = {"rows": 8, "hidden": 256}

    def define(self, hidden: int = 4096, dtype: str = "float16") -> Definition:
        """Make the Definition `rmsnorm_d{hidden}`, with the suffix `_bf16` or `_fp32` for other dtypes than float16.

        Short names of dtypes work too: fp16, bf16, fp32. Raises InputError if the hidden size is not a positive
        multiple of 128 up to 2^20, or if the dtype is unknown.
        """
        from fib_rmsnorm.schema import AxisConst, AxisVar, Definition, TensorSpec

        hidden, dtype = check_hidden(hidden), read_dtype(dtype)

        def tensor(shape: list[str] | None, dtype: str, description: str) -> TensorSpec:
            return TensorSpec.model_validate({"shape": shape, "dtype": dtype, "description": description})

        return Definition(
            name=f"{self.name}_d{hidden}{DTYPES[dtype]}",
            op_type="norm",
            description=f"Root mean square normalization over the hidden axis: {self.formula}",
            tags=["stage:inference", "op:norm", "status:verified"],
            axes={
                "batch": AxisVar(description="Rows normalized independently: tokens, or batch times sequence."),
                "hidden": AxisConst(value=hidden, description="Elements of a row: the model's hidden size."),
            },
            constraints=["hidden % 128 == 0"],
            inputs={
                "x": tensor(["batch", "hidden"], dtype, "Activations, contiguous by rows."),
                "weight": tensor(["hidden"], dtype, "Learned scale of each hidden element."),
                "eps": tensor(None, "float32", "Added to the mean square before the reciprocal square root."),
            },
            outputs={"out": tensor(["batch", "hidden"], dtype, "Normalized and scaled activations.")},
            reference=self.reference,
        )

    def find_parts(self, definition: Definition) -> Parts | None:
        """Match inputs x [rows, hidden], weight [hidden] and perhaps a scalar eps, and an output with x's shape."""
        by_rank: dict[int, list[str]] = {0: [], 1: [], 2: []}
        for name, spec in definition.inputs.items():
            by_rank.setdefault(len(spec.shape or ()), []).append(name)
        if [len(names) for names in by_rank.values()] not in ([0, 1, 1], [1, 1, 1]) or len(definition.outputs) != 1:
            return None
        tensors = {"x": by_rank[2][0], "weight": by_rank[1][0], "out": next(iter(definition.outputs))}
        specs = {part: {**definition.inputs, **definition.outputs}[name] for part, name in tensors.items()}
        shapes = {part: tuple(spec.shape or ()) for part, spec in specs.items()}
        rows, hidden = shapes["x"]
        if rows == hidden or shapes["weight"] != (hidden,) or shapes["out"] != (rows, hidden):
            return None
        if by_rank[0]:
            tensors["eps"] = by_rank[0][0]
            specs["eps"] = definition.inputs[tensors["eps"]]
        if any(spec.dtype.value not in DTYPES for spec in specs.values()) or specs["out"].dtype != specs["x"].dtype:
            return None
        return Parts(tensors, {"rows": rows, "hidden": hidden})

    def suggest_constants(self, parts: Parts, literals: Iterable[float]) -> list[dict[str, float]]:
        """Suggest values of an eps that the reference holds: numbers in its source first, then the usual ones."""
        if "eps" in parts.tensors:
            return [{}]
        return [{"eps": eps} for eps in dict.fromkeys((*literals, *_USUAL_EPS)) if 0 <= eps < 1]

    def define_by_name(self, name: str) -> Definition | None:
        """Make the Definition to which `define` gives this name; None if there is none."""
        found = re.fullmatch(rf"{self.name}_d(\d+)(?:_(\w+))?", name)
        if found is None:
            return None
        with suppress(InputError):
            definition = self.define(int(found[1]), found[2] or "fp16")
            return definition if definition.name == name else None
        return None

    def find_kernel(self, dtypes: Mapping[str, str], language: str) -> Path | None:
        """Find the kernel in the operator's folder. Each takes any rows, of float16, bfloat16 or float32 throughout."""
        rows = {dtypes[part] for part in ("x", "weight", "out")}
        if len(rows) != 1 or not rows <= DTYPES.keys():
            return None
        return next((_HERE / f"{self.name}_kernels").glob(f"{self.name}_{language}.*"), None)

    def count_hard_cases(self, sizes: Mapping[str, int], constants: Mapping[str, float]) -> int:
        """The number of cases in which every kind of row meets every value of eps, even with one row per batch."""
        return (1 if "eps" in constants else 2) * self._rotations(sizes["rows"])

    def _rotations(self, rows: int) -> int:
        return -(-len(_ROW_KINDS) // max(1, min(rows, len(_ROW_KINDS))))

    def make_hard_case(self, inputs: Mapping[str, Any], constants: Mapping[str, float], index: int) -> HardCase:
        """Make rows of every hard kind in turn, with negative, zero and large weights; later cases change eps."""
        x, weight, eps = inputs["x"].clone(), inputs["weight"].clone(), inputs["eps"]
        rotations = self._rotations(x.shape[0])
        if index >= rotations:
            eps = 1e-2 if eps < 1e-3 else 1e-6
        kinds = list(_ROW_KINDS)
        start = (index % rotations) * x.shape[0] % len(kinds)
        kinds = kinds[start:] + kinds[:start]
        for offset, kind in enumerate(kinds):
            if offset < x.shape[0]:
                x[offset :: len(kinds)] = _ROW_KINDS[kind](x[offset :: len(kinds)].clone())
        weight[0::5] = 0
        weight[1::5] = -weight[1::5].abs()
        weight[2::5] *= 16
        return HardCase(
            name=f"hard rows, eps={eps:g}",
            inputs={"x": x, "weight": weight, "eps": eps},
            row_kinds=tuple(kinds),
        )

    def choose_awkward_sizes(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Choose a prime number of rows, below the Workload's number if that is above three."""
        if "rows" not in sizes:
            return {}
        below = [rows for rows in _AWKWARD_ROWS if rows < sizes["rows"]]
        return {"rows": max(below, default=_AWKWARD_ROWS[0])}

    def count_cost(self, sizes: Mapping[str, int]) -> Cost:
        """Count four operations per element and three per row."""
        return Cost(
            flops=sizes["rows"] * (4 * sizes["hidden"] + 3),
            how=(
                "4 operations an element (square, add, times rstd, times weight)"
                " and 3 a row (divide, add eps, reciprocal square root)"
            ),
        )

    def compute_exact(self, inputs: Mapping[str, Any], dtypes: Mapping[str, torch.dtype]) -> Mapping[str, ExactOutput]:
        """Compute RMSNorm in float64 and round as the convention says: here once, to the dtype of x."""
        out = self._compute(inputs, lambda normalized, weight, dtype: round_once(normalized * weight, dtype))
        return {"out": ExactOutput(out)}

    def _compute(self, inputs: Mapping[str, Any], finish: Finish) -> torch.Tensor:
        """Compute the output in blocks of rows; `finish` makes it of the normalized rows and the weight in float64."""
        import torch

        x, weight, eps = inputs["x"], inputs["weight"].to(torch.float64), inputs["eps"]
        out = torch.empty_like(x)
        rows = max(1, _CHUNK_ELEMENTS // max(1, x.shape[1]))
        for x_rows, out_rows in zip(torch.split(x, rows), torch.split(out, rows), strict=True):
            x_fp64 = x_rows.to(torch.float64)
            rstd = torch.rsqrt(x_fp64.pow(2).mean(dim=-1, keepdim=True) + eps)
            out_rows.copy_(finish(x_fp64 * rstd, weight, out.dtype))
        return out

    def mistakes(
        self, output: str, inputs: Mapping[str, Any], rows: torch.Tensor, columns: torch.Tensor
    ) -> Iterable[Mistake]:
        """The usual wrong formulas of RMSNorm."""
        from fib_rmsnorm.operators.rmsnorm_mistakes import Rows, usual_mistakes

        return usual_mistakes(Rows(inputs["x"], inputs["weight"], inputs["eps"], rows, columns), self.convention)


OPERATORS = (RmsNorm(),)
