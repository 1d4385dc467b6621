"""What norms over rows share, whatever they compute: Definitions, how tensors play parts, hard rows, kernels, cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from fib_rmsnorm.operators.norms.extreme_rows import (
    EXTREME_ROWS,
    LIMITS,
    NAME,
    NAN,
    limit_weight,
    spoil_bias,
    spoil_weight,
)
from fib_rmsnorm.operators.norms.hard_rows import (
    HARD_ROWS,
    Kinds,
    choose_other_eps,
    count_eps,
    count_rotations,
    fill_rows,
    list_kinds,
    make_hard_weight,
    rotate_kinds,
    scale_near_eps,
)
from fib_rmsnorm.operators.norms.norm_kernels import NormKernel
from fib_rmsnorm.operators.norms.norm_options import (
    DTYPE,
    DTYPES,
    HIDDEN,
    WEIGHT,
    check_hidden,
    name_weight,
    read_dtype,
    read_weight,
)
from fib_rmsnorm.operators.norms.norm_tensors import (
    PER_COLUMN,
    PER_ELEMENT,
    NormTensor,
    list_matches,
    make_definition,
)
from fib_rmsnorm.operators.norms.row_operator import RowOperator
from fib_rmsnorm.operators.operator import Cost, HardCase, Option, Parts, Scalar

if TYPE_CHECKING:
    from fib_rmsnorm.schema import Definition

_OF_ONE_DTYPE = ("tilelang", "cutedsl")


class NormOperator(RowOperator):
    """A norm over the last axis of x, [rows, hidden], with an eps and perhaps a weight; its first output is `out`."""

    options: ClassVar[tuple[Option, ...]] = (HIDDEN, DTYPE, WEIGHT)
    tensors: ClassVar[Mapping[str, NormTensor]]
    """The inputs and outputs of its own Definitions: the arguments, and the outputs."""
    scalars: ClassVar[Mapping[str, Scalar]] = {"eps": Scalar(1e-6, least=0)}
    probe_sizes: ClassVar[Mapping[str, int]] = {"rows": 8, "hidden": 256}
    row_kinds: ClassVar[Mapping[str, Kinds]] = {"x": HARD_ROWS}
    """The kinds of hard rows of each input that has rows; a row's kind may concern several inputs."""
    extreme_kinds: ClassVar[Mapping[str, Kinds]] = {"x": EXTREME_ROWS}
    """The kinds of extreme rows of each input that has rows; none if right kernels differ in them."""
    near_eps: ClassVar[tuple[str, ...]] = ("x",)
    """The inputs that are scaled where a row's mean square shall be about eps."""
    dtypes: ClassVar[Mapping[str, str]] = {}
    """The dtypes of parts that have their own, whatever x has."""
    kernel: ClassVar[NormKernel | None] = None
    """What a kernel to start from says and does for this operator; None if there is none."""
    steps: ClassVar[tuple[str, ...]]
    """The operations of an element."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """The parts of its outputs, in order."""
        return tuple(part for part in self.tensors if part not in self.arguments)

    def define(self, hidden: int = 4096, dtype: str = "float16", weight: str = "same") -> Definition:
        """Make the Definition `{name}_d{hidden}`, with the suffix `_bf16` or `_fp32` for other dtypes than float16.

        `weight` is its dtype, and that of a bias: "same" as x, or "float32", which adds `_weight_fp32` to the name.
        Short names of dtypes work too: fp16, bf16, fp32. Raises InputError if the hidden size is not a positive
        multiple of 128 up to 2^20, or if a dtype is unknown.
        """
        hidden, dtype = check_hidden(hidden), read_dtype(dtype)
        weight = read_weight(weight, dtype)
        name = f"{self.name}_d{hidden}{DTYPES[dtype]}{name_weight(weight, dtype)}"
        by_shape = {PER_ELEMENT: dtype, PER_COLUMN: weight}
        chosen = {
            part: self.dtypes.get(part) or by_shape.get(tensor.shape, "float32")
            for part, tensor in self.tensors.items()
        }
        inputs = {part: chosen[part] for part in self.arguments}
        outputs = {part: chosen[part] for part in self.outputs}
        return make_definition(name, self.formula, hidden, self.tensors, inputs, outputs, self.reference)

    def list_parts(self, definition: Definition) -> list[Parts]:
        """Match the tensors by shapes and dtypes, those of one shape in all orders; eps may be missing."""
        inputs = {part: self.tensors[part].shape for part in self.arguments}
        outputs = {part: self.tensors[part].shape for part in self.outputs}
        specs = {**definition.inputs, **definition.outputs}
        return [
            parts
            for parts in list_matches(definition, inputs, outputs)
            if self._takes({part: specs[name].dtype.value for part, name in parts.tensors.items()})
        ]

    def _takes(self, dtypes: Mapping[str, str]) -> bool:
        """Whether the tensors that play the parts may have these dtypes."""
        others = {part: dtype for part, dtype in dtypes.items() if part not in self.dtypes}
        own = {part: dtype for part, dtype in dtypes.items() if part in self.dtypes}
        is_out_right = others.get("out", dtypes["x"]) == dtypes["x"]
        return own.items() <= self.dtypes.items() and {*others.values()} <= DTYPES.keys() and is_out_right

    def write_kernel(self, dtypes: Mapping[str, str], language: str) -> str | None:
        """Write the kernel, which takes any rows, of float16, bfloat16 or float32.

        A weight and a bias have the same dtype, or float32 in all languages but TileLang and CuTe DSL.
        """
        chosen = [(self.tensors[part].shape, dtype) for part, dtype in dtypes.items() if part not in self.dtypes]
        rows = {dtype for shape, dtype in chosen if shape == PER_ELEMENT}
        columns = {dtype for shape, dtype in chosen if shape == PER_COLUMN}
        may_differ = columns == {"float32"} and language not in _OF_ONE_DTYPE
        if self.kernel is None or len(rows) != 1 or not (columns <= rows or may_differ):
            return None
        return self.kernel.write(language, self.arguments, self.outputs, self.tensors, form=self.dtypes.get("out"))

    def count_hard_cases(self, sizes: Mapping[str, int], constants: Mapping[str, float]) -> int:
        """The number of cases in which every kind of row meets every value of eps, even with one row per batch.

        Then come those of the extreme rows.
        """
        rows = sizes["rows"]
        return count_eps(constants) * count_rotations(len(self._kinds), rows) + self._count_extreme_cases(rows)

    def _count_extreme_cases(self, rows: int) -> int:
        return count_rotations(len(self._extreme_kinds), rows) if self._extreme_kinds else 0

    @property
    def _kinds(self) -> list[str]:
        return list_kinds(self.row_kinds)

    @property
    def _extreme_kinds(self) -> list[str]:
        return list_kinds(self.extreme_kinds)

    def make_hard_case(
        self, inputs: Mapping[str, Any], constants: Mapping[str, float], index: int, seed: str
    ) -> HardCase:
        """Make rows of every hard kind in turn, with negative, zero and large weights; later cases change eps."""
        rows, eps = inputs["x"].shape[0], inputs["eps"]
        rotations = count_rotations(len(self._kinds), rows)
        if index >= count_eps(constants) * rotations:
            return self.make_extreme_case(inputs, index - count_eps(constants) * rotations)
        if index >= rotations:
            eps = choose_other_eps(eps, seed)
        order = rotate_kinds(self._kinds, rows, index % rotations)
        rows_made = scale_near_eps(self.make_hard_rows(inputs, order), self.near_eps, order, eps, constants)
        made = {**rows_made, **self.make_hard_columns(inputs), "eps": eps}
        return HardCase(name=f"hard rows, eps={eps:g}", inputs=made, row_kinds=order)

    def make_extreme_case(self, inputs: Mapping[str, Any], index: int) -> HardCase:
        """Make rows of every extreme kind in turn, with a weight by which outputs reach the limits."""
        order = rotate_kinds(self._extreme_kinds, inputs["x"].shape[0], index)
        made = {part: fill_rows(inputs[part], order, kinds) for part, kinds in self.extreme_kinds.items()}
        if LIMITS in order:
            made["weight"] = limit_weight(inputs["weight"], inputs["x"].dtype)
        if LIMITS in order and NAN in order:
            made["weight"] = spoil_weight(made["weight"])
        if "bias" in inputs:
            made["bias"] = spoil_bias(inputs["bias"])
        return HardCase(NAME, made, order, explains=False)

    def make_hard_rows(self, inputs: Mapping[str, Any], order: Sequence[str]) -> dict[str, Any]:
        """Make the inputs that have rows hard: row r is of kind `order[r % len(order)]`."""
        return {part: fill_rows(inputs[part], order, kinds) for part, kinds in self.row_kinds.items()}

    def make_hard_columns(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Make the inputs that rows share hard."""
        return {"weight": make_hard_weight(inputs["weight"])}

    def count_cost(self, sizes: Mapping[str, int]) -> Cost:
        """Count the operations of each element and three for each row."""
        return Cost(
            flops=sizes["rows"] * (len(self.steps) * sizes["hidden"] + 3),
            how=(
                f"{len(self.steps)} operations an element ({', '.join(self.steps)})"
                " and 3 a row (divide, add eps, reciprocal square root)"
            ),
        )
