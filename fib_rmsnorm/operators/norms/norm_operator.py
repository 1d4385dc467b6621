"""What operators over rows share, whatever they compute: sizes, Definitions, hard rows, kernels, cost."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.operators.norms.hard_rows import (
    EXTREME_ROWS,
    HARD_ROWS,
    LIMITS,
    NAME,
    NAN,
    Kinds,
    choose_awkward_rows,
    choose_other_eps,
    count_eps,
    count_rotations,
    fill_rows,
    limit_weight,
    list_kinds,
    make_hard_weight,
    rotate_kinds,
    scale_near_eps,
    spoil_bias,
    spoil_weight,
)
from fib_rmsnorm.operators.norms.norm_definitions import (
    DTYPE,
    DTYPES,
    HIDDEN,
    PER_COLUMN,
    PER_ELEMENT,
    WEIGHT,
    NormTensor,
    check_hidden,
    list_matches,
    make_definition,
    name_weight,
    read_dtype,
    read_weight,
)
from fib_rmsnorm.operators.norms.norm_kernels import NormKernel
from fib_rmsnorm.operators.operator import Cost, HardCase, Operator, Option, Parts, Scalar

if TYPE_CHECKING:
    from fib_rmsnorm.schema import Definition

# The machine epsilons are those of float16, bfloat16 and float32, torch's default.
_USUAL_EPS = (1e-5, 1e-6, 1e-8, 1e-12, 1e-7, 1e-4, 1e-3, 1e-10, 2.0**-10, 2.0**-7, 2.0**-23, 0.0)

_OF_ONE_DTYPE = ("tilelang", "cutedsl")
_OPTIONS_IN_NAMES = r"(?P<bias>_bias)?_d(?P<hidden>\d+)(?:_(?P<dtype>bf16|fp32))?(?:_weight_(?P<weight>fp32))?"


class RowOperator(Operator):
    """An operator on x, [rows, hidden], which treats each row alike, with or without an eps."""

    sizes: ClassVar[Mapping[str, tuple[int, ...]]] = {"hidden": (4096,)}
    extreme_kinds: ClassVar[Mapping[str, Kinds]] = {"x": EXTREME_ROWS}
    """The kinds of extreme rows of each input that has rows; none if right kernels differ in them."""

    @abstractmethod
    def list_parts(self, definition: Definition) -> list[Parts]:
        """Match the tensors by shapes and dtypes, those of one shape in all orders, the likeliest first."""

    def find_parts(self, definition: Definition) -> Parts | None:
        """The first match: of tensors of one shape, that in the Definition's order."""
        return next(iter(self.list_parts(definition)), None)

    def define_like(self, sizes: Mapping[str, int], dtypes: Mapping[str, str]) -> Definition:
        """By the options that are told from sizes and dtypes; the weight's dtype is that of x unless it is float32."""
        weight = dtypes.get("weight", "float32")
        told: dict[str, int | str | bool] = {
            "hidden": sizes.get("hidden", 0),
            "dtype": dtypes["x"],
            "weight": "same" if weight == dtypes["x"] else weight,
            "bias": "bias" in dtypes,
        }
        made = self._define_by(told)
        specs = {**made.inputs, **made.outputs}
        for part, dtype in dtypes.items():
            if (own := specs[part].dtype.value) != dtype:
                raise InputError(f"{part} must be {own}, not {dtype}")
        return made

    def _define_by(self, told: Mapping[str, int | str | bool]) -> Definition:
        """By those of these options that the operator has. Raises InputError if it refuses their values."""
        return self.define(**{option.name: told[option.name] for option in self.options if option.name in told})

    def define_by_name(self, name: str) -> Definition | None:
        """Make the Definition to which `define` gives this name; None if there is none."""
        found = re.fullmatch(self.name + _OPTIONS_IN_NAMES, name)
        if found is None:
            return None
        told: dict[str, int | str | bool] = {
            "hidden": int(found["hidden"]),
            "dtype": found["dtype"] or "fp16",
            "weight": found["weight"] or "same",
            "bias": found["bias"] is not None,
        }
        with suppress(InputError):  # of an option's value
            made = self._define_by(told)
            return made if made.name == name else None
        return None

    def suggest_constants(self, parts: Parts, literals: Iterable[float]) -> list[dict[str, float]]:
        """Suggest values of an eps that the reference holds: numbers in its source first, then the usual ones."""
        if "eps" in parts.tensors or "eps" not in self.scalars:
            return [{}]
        return [{"eps": eps} for eps in dict.fromkeys((*literals, *_USUAL_EPS)) if 0 <= eps < 1]

    def choose_awkward_sizes(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Choose a prime number of rows, below the Workload's number if that is above three."""
        return {"rows": choose_awkward_rows(sizes["rows"])} if "rows" in sizes else {}

    def count_extreme_cases(self, rows: int) -> int:
        """The number of cases in which every kind of extreme row appears."""
        kinds = list_kinds(self.extreme_kinds)
        return count_rotations(len(kinds), rows) if kinds else 0

    def make_extreme_case(self, inputs: Mapping[str, Any], index: int) -> HardCase:
        """Make rows of every extreme kind in turn, with a weight by which outputs reach the limits."""
        order = rotate_kinds(list_kinds(self.extreme_kinds), inputs["x"].shape[0], index)
        made = {part: fill_rows(inputs[part], order, kinds) for part, kinds in self.extreme_kinds.items()}
        if LIMITS in order:
            made["weight"] = limit_weight(inputs["weight"], inputs["x"].dtype)
        if LIMITS in order and NAN in order:
            made["weight"] = spoil_weight(made["weight"])
        if "bias" in inputs:
            made["bias"] = spoil_bias(inputs["bias"])
        return HardCase(NAME, made, order, explains=False)


class NormOperator(RowOperator):
    """A norm over the last axis of x, [rows, hidden], with an eps and perhaps a weight; its first output is `out`."""

    options: ClassVar[tuple[Option, ...]] = (HIDDEN, DTYPE, WEIGHT)
    tensors: ClassVar[Mapping[str, NormTensor]]
    """The inputs and outputs of its own Definitions: the arguments, and the outputs."""
    scalars: ClassVar[Mapping[str, Scalar]] = {"eps": Scalar(1e-6, least=0)}
    probe_sizes: ClassVar[Mapping[str, int]] = {"rows": 8, "hidden": 256}
    row_kinds: ClassVar[Mapping[str, Kinds]] = {"x": HARD_ROWS}
    """The kinds of hard rows of each input that has rows; a row's kind may concern several inputs."""
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
        return count_eps(constants) * count_rotations(len(self._kinds), rows) + self.count_extreme_cases(rows)

    @property
    def _kinds(self) -> list[str]:
        return list_kinds(self.row_kinds)

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
