"""The common base of operators over rows: sizes, Definitions, hard rows, kernels, cost."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.operators.norms import hard_rows
from fib_rmsnorm.operators.norms.norm_definitions import (
    AXES,
    DTYPE,
    DTYPES,
    HIDDEN,
    MOST_HIDDEN,
    PER_COLUMN,
    PER_ELEMENT,
    PER_GROUP,
    NormTensor,
    list_matches,
    name_dtypes,
    read_dtypes,
)
from fib_rmsnorm.operators.operator import HardCase, Inputs, Operator, Option, Parts, Scalar

if TYPE_CHECKING:
    from fib_rmsnorm.schema import Definition

# The machine epsilons are those of float16, bfloat16 and float32, torch's default.
_USUAL_EPS = (1e-5, 1e-6, 1e-8, 1e-12, 1e-7, 1e-4, 1e-3, 1e-10, 2.0**-10, 2.0**-7, 2.0**-23, 0.0)

# Primes, because no tile divides them. Few, because some kernels compile for each shape. None near the largest
# batches, because each would add a full-size check.
_AWKWARD_ROWS = (3, 31, 509, 4099)
# Upstream's kernels rely on it where the Definition says so; a hidden size that is none has no constraint.
_EASY_HIDDEN = 128
_OPTIONS_IN_NAMES = r"_d(\d+)((?:_bf16|_fp32)?)((?:_[a-z]+_(?:fp16|bf16|fp32))*)"


class NormOperator(Operator):
    """An operator on x, [rows, hidden], which treats each row alike."""

    options: ClassVar[tuple[Option, ...]] = (HIDDEN, DTYPE)
    kind: ClassVar[str] = "Root mean square normalization over the hidden axis"
    """The beginning of its Definitions' descriptions."""
    stage: ClassVar[str] = "inference"
    equation: ClassVar[str]
    rounding: ClassVar[str] = "computed in float32 and cast once at the end."
    """How the equation is computed, and what in it needs a word: the rest of the formula."""
    says: ClassVar[str] = ""
    """The docstring of its reference, if not one made of its `title`."""
    start: ClassVar[tuple[str, ...]]
    """The lines of its reference that relatives share."""
    end: ClassVar[tuple[str, ...]]
    """The other lines, which follow."""
    tensors: ClassVar[Mapping[str, NormTensor]]
    """Its inputs and outputs by part. What a class does not describe itself, its bases do, perhaps for others."""
    columns: ClassVar[Sequence[str]]
    """The inputs whose dtypes `define` may be told: none if not `casts_inputs`."""
    outputs: ClassVar[tuple[str, ...]] = ("out",)
    as_x: ClassVar[tuple[str, ...]] = ("out",)
    """The parts that have the dtype of x, if not one of `dtypes`."""
    dtypes: ClassVar[Mapping[str, str]] = {}
    """The dtypes of parts that have their own, whatever x has."""
    casts_inputs: ClassVar[bool] = True
    """Whether its reference takes each input to float32 first, so that weight and bias may differ from x in dtype."""
    called: ClassVar[Mapping[str, str]] = {}
    """Regular expressions for the names of tensors that others of their shape may be taken for."""
    scalars: ClassVar[Mapping[str, Scalar]] = {"eps": Scalar(1e-6, least=0)}
    probe_sizes: ClassVar[Mapping[str, int]] = {"rows": 8, "hidden": 256}
    kinds: ClassVar[hard_rows.Kinds] = hard_rows.of("x", hard_rows.HARD_ROWS)
    """The kinds of hard rows."""
    near_eps: ClassVar[tuple[str, ...]] = ("x",)
    """The inputs that are scaled where a row's mean square shall be about eps."""
    extreme_kinds: ClassVar[hard_rows.Kinds] = hard_rows.of("x", hard_rows.EXTREME_ROWS)
    """The kinds of extreme rows; none if right kernels differ in them."""
    special_kinds: ClassVar[hard_rows.Kinds] = hard_rows.of("x", hard_rows.SPECIAL_ROWS)
    """The kinds of rows of special values."""
    title: ClassVar[str]
    """Its name in the first line of a kernel to start from: `{title} in Triton: {equation}, in float32, ...`."""
    expression: ClassVar[str | None] = None
    """An element of `out` in Python, by the parts in float32, `rstd`, and `round`, `relu` and `silu`. A language that
    lacks one of these gets no kernel, and no language where it is None."""

    def __init_subclass__(cls) -> None:
        """Write the formula and the reference, and inherit each tensor; inherit no expression: it is of one formula."""
        cls.formula = f"{cls.equation}, {cls.rounding}"
        body = "".join(f"    {line}\n" for line in (*cls.start, *cls.end))
        says = cls.says or f"{cls.title} in float32, cast to the dtype of x once at the end."
        cls.reference = f'import torch\n\n\ndef run({", ".join(cls.arguments)}):\n    """{says}"""\n{body}'
        own = (vars(base).get("tensors", {}) for base in reversed(cls.__mro__))
        cls.tensors = {part: tensor for each in own for part, tensor in each.items()}
        cls.expression = vars(cls).get("expression")
        cls.columns = [part for part in cls.arguments if cls.casts_inputs and cls.tensors[part].shape == PER_COLUMN]

    def define(self, hidden: int = 4096, dtype: str = "float16") -> Definition:
        """Make the Definition `{name}_d{hidden}`, with the suffix `_bf16` or `_fp32` for other dtypes than float16.

        `dtype` may tell those of a weight and a bias: `bf16,weight=fp32,bias=bf16` adds `_weight_fp32_bias_bf16` to the
        name. Short names of dtypes work too: fp16, bf16, fp32. Raises InputError if the hidden size is not one of 1 to
        2^20, or for what `read_dtypes` refuses.
        """
        from fib_rmsnorm.schema import AxisConst, AxisVar, Definition, TensorSpec

        if not 0 < hidden <= MOST_HIDDEN:
            raise InputError(f"hidden must be 1 to {MOST_HIDDEN}, not {hidden}")
        dtypes = read_dtypes(dtype, self.columns)
        by_shape = dict.fromkeys((PER_ELEMENT, PER_GROUP, PER_COLUMN), dtypes["x"])
        own = {**dtypes, **self.dtypes}

        def specify(part: str) -> TensorSpec:
            tensor = self.tensors[part]
            shape = [AXES[axis] for axis in tensor.shape if axis in AXES] or None
            dtype = own.get(part) or by_shape.get(tensor.shape, "float32")
            return TensorSpec.model_validate({"shape": shape, "dtype": dtype, "description": tensor.description})

        return Definition(
            name=f"{self.name}_d{hidden}{name_dtypes(dtypes)}",
            op_type="norm",
            description=f"{self.kind}: {self.formula}",
            tags=[f"stage:{self.stage}", "op:norm", "status:verified"],
            axes={
                "batch": AxisVar(description="Rows normalized independently: tokens, or batch times sequence."),
                "hidden": AxisConst(value=hidden, description="Elements of a row: the model's hidden size."),
            },
            constraints=[] if hidden % _EASY_HIDDEN else [f"hidden % {_EASY_HIDDEN} == 0"],
            inputs={part: specify(part) for part in self.arguments},
            outputs={part: specify(part) for part in self.outputs},
            reference=self.reference,
        )

    def define_like(self, sizes: Mapping[str, int], dtypes: Mapping[str, str]) -> Definition:
        """By the options that are told from sizes and dtypes."""
        told = (f"{part}={dtypes[part]}" for part in ("x", *self.columns) if part in dtypes)
        made = self.define(sizes.get("hidden", 0), ",".join(told))
        specs = {**made.inputs, **made.outputs}
        for part, dtype in dtypes.items():
            if (own := specs[part].dtype.value) != dtype:
                raise InputError(f"{part} must be {own}, not {dtype}")
        return made

    def define_by_name(self, name: str) -> Definition | None:
        """Make the Definition to which `define` gives this name; None if there is none."""
        if found := re.fullmatch(self.name + _OPTIONS_IN_NAMES, name):
            hidden, dtype, others = found.groups()
            told = re.sub(r"_([a-z]+)_([a-z]+\d+)", r",\1=\2", others)
            with suppress(InputError):  # of an option's value
                made = self.define(int(hidden), f"{dtype[1:] or 'fp16'}{told}")
                return made if made.name == name else None
        return None

    def list_parts(self, definition: Definition, outputs: Iterable[str] | None = None) -> list[Parts]:
        """Match the tensors by shapes and dtypes, those of one shape in all orders; eps may be missing.

        First those whose names say so, then in the Definition's order. `outputs` are those that it has, if not all.
        """

        def count_unnamed(parts: Parts) -> int:
            names = ((name, parts.tensors.get(part, "").lower()) for part, name in self.called.items())
            return sum(re.search(pattern, name) is None for pattern, name in names)

        sides = self.arguments, self.outputs if outputs is None else outputs
        inputs, given = ({part: self.tensors[part].shape for part in parts} for parts in sides)
        specs = {**definition.inputs, **definition.outputs}
        found = (
            parts
            for parts in list_matches(definition, inputs, given)
            if self.takes({part: specs[name].dtype.value for part, name in parts.tensors.items()})
        )
        return sorted(found, key=count_unnamed)

    def takes(self, dtypes: Mapping[str, str]) -> bool:
        """Whether the tensors that play the parts may have these dtypes."""
        others = {part: dtype for part, dtype in dtypes.items() if part not in self.dtypes}
        own = {part: dtype for part, dtype in dtypes.items() if part in self.dtypes}
        is_as_x = {others.get(part, dtypes["x"]) for part in self.as_x} == {dtypes["x"]}
        return own.items() <= self.dtypes.items() and {*others.values()} <= DTYPES.keys() and is_as_x

    def suggest_constants(self, parts: Parts, literals: Iterable[float]) -> list[dict[str, float]]:
        """Suggest values of an eps that the reference holds: numbers in its source first, then the usual ones."""
        if "eps" in parts.tensors or "eps" not in self.scalars:
            return [{}]
        return [{"eps": eps} for eps in dict.fromkeys((*literals, *_USUAL_EPS)) if 0 <= eps < 1]

    def count_hard_cases(self, sizes: Mapping[str, int], constants: Mapping[str, float]) -> int:
        """The number of cases in which every kind of row meets every value of eps, even with one row per batch.

        Then come those of the extreme rows, and of the special ones.
        """
        return len(self._list_cases(sizes["rows"], constants))

    def _list_cases(self, rows: int, constants: Mapping[str, float]) -> list[tuple[Callable[..., HardCase], int]]:
        """The maker of each case, and the case's number among those of its sort.

        The usual ones come with the Workload's eps, and with another unless the reference holds it.
        """
        kinds = self.kinds, self.extreme_kinds, self.special_kinds
        counts = [hard_rows.count_rotations(len(each), rows) for each in kinds]
        counts[0] *= 1 if "eps" in constants or "eps" not in self.scalars else 2
        makers = self.make_usual_case, self.make_extreme_case, self.make_special_case
        return [(make, index) for make, count in zip(makers, counts, strict=True) for index in range(count)]

    def make_hard_case(self, inputs: Inputs, constants: Mapping[str, float], index: int, seed: str) -> HardCase:
        """Make a usual, an extreme or a special case."""
        make, number = self._list_cases(inputs["x"].shape[0], constants)[index]
        return make(inputs, constants, number, seed)

    def make_usual_case(self, inputs: Inputs, constants: Mapping[str, float], index: int, seed: str) -> HardCase:
        """Make rows of every hard kind in turn, with negative, zero and large weights; later cases change eps."""
        rotations, eps = hard_rows.count_rotations(len(self.kinds), len(inputs["x"])), inputs["eps"]
        if index >= rotations:
            eps = hard_rows.choose_other_eps(eps, seed)
        made, order = hard_rows.fill_rows(inputs, self.kinds, index % rotations)
        # A reference that holds its eps is recognised by the same inputs, whichever it is thought to have.
        scale = (hard_rows.USUAL_EPS if "eps" in constants else eps) ** 0.5
        for part in self.near_eps:
            made[part][order.index(hard_rows.NEAR_EPS) :: len(order)] *= scale
        columns = self.make_hard_columns({**inputs, **made, "eps": eps}, order)
        return HardCase(f"hard rows, eps={eps:g}", {**made, **columns, "eps": eps}, order)

    def make_hard_columns(self, inputs: Inputs, order: tuple[str, ...]) -> dict[str, Any]:
        """Make the inputs that rows share hard, beside rows of these kinds."""
        return {"weight": hard_rows.make_hard_weight(inputs["weight"])} if "weight" in inputs else {}

    def make_extreme_case(self, inputs: Inputs, constants: Mapping[str, float], index: int, seed: str) -> HardCase:
        """Make rows of every extreme kind in turn, with a weight by which outputs reach the limits."""
        made, order = hard_rows.fill_rows(inputs, self.extreme_kinds, index)
        if hard_rows.LIMITS in order and "weight" in inputs:
            made["weight"] = hard_rows.limit_weight(inputs["weight"], inputs["x"].dtype)
            if hard_rows.NAN in order:
                made["weight"] = hard_rows.spoil(made["weight"], {2: math.nan})
        if "bias" in inputs:
            made["bias"] = hard_rows.spoil(inputs["bias"], {3: math.nan, 4: math.inf})
        return HardCase(hard_rows.NAME, made, order, explains=False)

    def make_special_case(self, inputs: Inputs, constants: Mapping[str, float], index: int, seed: str) -> HardCase:
        """Make rows of every special kind in turn, and special values in what rows share."""
        made, order = hard_rows.fill_rows(inputs, self.special_kinds, index)
        for part, tensor in self.tensors.items():
            if part in inputs and tensor.shape == PER_COLUMN:
                made[part] = hard_rows.make_special_columns(inputs[part], f"{seed} {part}", first=int(part != "bias"))
        return HardCase("special values", {**made, **self.derive_inputs({**inputs, **made})}, order)

    def choose_awkward_sizes(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Choose a prime number of rows, below the Workload's number if that is above three."""
        below = [prime for prime in _AWKWARD_ROWS if prime < sizes.get("rows", 0)]
        return {"rows": max(below, default=_AWKWARD_ROWS[0])} if "rows" in sizes else {}
