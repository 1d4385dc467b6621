"""Recognise the operator that a Definition computes, or may compute by its shapes and dtypes.

The names of a Definition, its tensors and its axes do not matter.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fib_rmsnorm import syntax_trees
from fib_rmsnorm.errors import InputError
from fib_rmsnorm.operators.late_torch import torch
from fib_rmsnorm.operators.operator import (
    Cost,
    ExactOutput,
    HardCase,
    Inputs,
    Mistake,
    Operator,
    Parts,
    Scalar,
    find_operator,
    list_operators,
)

if TYPE_CHECKING:
    from fib_rmsnorm.schema import Definition

# Each is compared with what the reference computed.
_MOST_LITERALS = 64

_HUGE = 1e30  # integers can be too large for a float


@dataclass(frozen=True)
class Recognition(Parts):
    """An operator that a Definition computes, or may compute, and who plays its parts.

    Inputs, axes and sizes have the Definition's names here, and those of the operator's parts beyond.
    """

    operator: str
    outputs: dict[str, str]
    """The dtype of each output, in the Definition's order."""
    constants: dict[str, float]
    """The values of the parts that the reference's source holds instead of inputs, such as an eps."""
    is_own: bool = False
    """Whether the Definition's reference is the operator's own, which nobody has to probe."""
    by_rows: tuple[str, ...] = ()
    """The inputs and outputs that begin with `row_axes`, and which the operator gets with one axis of rows."""
    by_groups: tuple[str, ...] = ()
    """The inputs that begin with the first of them alone, which the operator gets with each row repeated."""

    @property
    def _operator(self) -> Operator:
        return find_operator(self.operator)

    def count_hard_cases(self, sizes: Mapping[str, int]) -> int:
        """The number of hard cases for a Workload whose axes, constant ones too, have these sizes."""
        return self._operator.count_hard_cases(self._count_rows(sizes), self.constants)

    def make_hard_case(self, inputs: dict[str, Any], index: int, seed: str) -> HardCase:
        """Make hard case `index` from the Workload's generated inputs, without changing them; `seed` is its uuid."""
        made = self._operator.make_hard_case(self._inputs_by_part(inputs), self.constants, index, seed)
        changed = {self.tensors[part]: value for part, value in made.inputs.items() if part in self.tensors}
        changed |= {name: changed[name].view(inputs[name].shape) for name in self.by_rows if name in changed}
        for name in self.by_groups:  # the first row of each group is hard
            repeats = changed[name].numel() // inputs[name].numel()
            changed[name] = changed[name][::repeats].reshape(inputs[name].shape)
        return replace(made, inputs={**inputs, **changed})

    def choose_awkward_axes(self, axes: Mapping[str, int]) -> dict[str, int]:
        """Choose sizes of variable axes near `axes`, but without the factors that benched sizes and tiles share."""
        chosen = self._operator.choose_awkward_sizes(self._sizes_by_part(axes))
        return {**axes, **{self.axes[part]: size for part, size in chosen.items()}}

    def count_cost(self, sizes: Mapping[str, int]) -> Cost:
        """Count the operations of a Workload whose axes, constant ones too, have these sizes."""
        return self._operator.count_cost(self._count_rows(sizes))

    def compute_exact(self, inputs: Inputs) -> dict[str, ExactOutput]:
        """Compute the outputs in float64 and round them once to their dtypes. Those of rows have one axis for them."""
        parts = {name: part for part, name in self.tensors.items()}
        dtypes = {parts[name]: getattr(torch, dtype) for name, dtype in self.outputs.items()}
        exact = self._operator.compute_exact(self._inputs_by_part(inputs), dtypes)
        return {name: exact[parts[name]] for name in self.outputs}

    def define_own(self, definition: Definition) -> Definition:
        """Make the operator's own Definition of the sizes and dtypes that `definition` has.

        Its inputs and outputs are called as their parts, and it has an input for each constant. Raises InputError that
        says why there is none.
        """
        if self.row_axes:
            raise InputError(f"the kernels take rows of one axis, not of {' and '.join(self.row_axes)}")
        return self._operator.define_like(self._sizes_by_part(definition.const_axes), self._find_dtypes(definition))

    def write_kernel(self, definition: Definition, language: str) -> str | None:
        """Write a plain kernel for the Definition to start from; None if none takes its dtypes, or its axes."""
        return None if self.row_axes else self._operator.write_kernel(self._find_dtypes(definition), language)

    def _find_dtypes(self, definition: Definition) -> dict[str, str]:
        """The dtypes of all tensors, by part."""
        specs = {**definition.inputs, **definition.outputs}
        return {part: specs[name].dtype.value for part, name in self.tensors.items()}

    @property
    def row_axis(self) -> str | None:
        """The variable axis along which the rows of outputs are counted; None if the operator has none.

        Where several count them, the first variable one.
        """
        return self.axes.get("rows")

    def fold_shape(self, name: str, shape: Sequence[str]) -> tuple[str, ...]:
        """The axes that a tensor of these has after `fold`, of which `row_axis` counts the rows."""
        if name in self.by_groups:
            return self.axes["rows"], self.axes["hidden"]
        return (self.axes["rows"], *shape[len(self.row_axes) :]) if name in self.by_rows else tuple(shape)

    def fold(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        """A tensor with one axis of rows instead of several; others stay as they are."""
        return tensor.flatten(0, len(self.row_axes) - 1) if name in self.by_rows else tensor

    def fold_inputs(self, inputs: Inputs) -> dict[str, Any]:
        """The inputs of a call with one axis of rows."""
        found = {name: self.fold(name, value) for name, value in inputs.items()}
        for name in self.by_groups:
            x, groups = found[self.by_rows[0]], inputs[name].flatten(0, -2)
            found[name] = groups.repeat_interleave(len(x) // max(1, len(groups)), dim=0)
        return found

    def mistakes(self, output: str, inputs: Inputs, rows: torch.Tensor, columns: torch.Tensor) -> Iterable[Mistake]:
        """The operator's usual mistakes, for the elements of an output in these rows and columns."""
        part = next(part for part, name in self.tensors.items() if name == output)
        return self._operator.mistakes(part, self._inputs_by_part(inputs), rows, columns)

    def choose_probe(self, definition: Definition) -> tuple[dict[str, int], dict[str, float]]:
        """The sizes of variable axes and the values of scalar inputs with which the reference is probed."""
        operator = self._operator
        sizes = {name: operator.probe_sizes[part] for part, name in self.axes.items()}
        axes = {name: sizes.get(name, 2 if name in self.row_axes else 1) for name in definition.var_axes}
        return axes, {self.tensors[part]: s.value for part, s in operator.scalars.items() if part in self.tensors}

    def _sizes_by_part(self, sizes: Mapping[str, int]) -> dict[str, int]:
        return {part: sizes[name] for part, name in self.axes.items() if name in sizes}

    def _count_rows(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """The sizes by part, of all axes."""
        rows = {"rows": math.prod(sizes[axis] for axis in self.row_axes)} if self.row_axes else {}
        return self._sizes_by_part(sizes) | rows

    def _inputs_by_part(self, inputs: Inputs) -> dict[str, Any]:
        folded = self.fold_inputs(inputs)
        return {**self.constants, **{part: folded[name] for part, name in self.tensors.items() if name in inputs}}

    def derive(self, inputs: Inputs) -> dict[str, torch.Tensor]:
        """The inputs that are made from the others, by name."""
        made = self._operator.derive_inputs(self._inputs_by_part(inputs))
        return {name: made[part].view(inputs[name].shape) for part, name in self.tensors.items() if part in made}


def recognise_source(definition: Definition) -> Recognition | None:
    """Recognise the operator whose own reference `definition` has; None if it has another, which must be probed."""
    for operator, parts in _list_fitting(definition, list_operators()):
        in_order = [parts.tensors.get(part) for part in operator.arguments] == list(definition.inputs)
        if in_order and _is_same_code(definition.reference, operator.reference):
            return replace(_recognise(definition, operator, parts), is_own=True)
    return None


def list_candidates(definition: Definition) -> list[list[Recognition]]:
    """Lists of Recognitions that differ in their constants alone.

    There is one for each operator whose shapes and dtypes `definition` has, and each match of the tensors.
    """
    literals = _list_literals(definition.reference)[:_MOST_LITERALS]
    return [
        [_recognise(definition, operator, parts, each) for each in operator.suggest_constants(parts, literals)]
        for operator in list_operators()
        for parts in operator.list_parts(definition)
    ]


def count_cost(definition: Definition, axes: Mapping[str, int], judged_by: str | None = None) -> Cost | None:
    """Count the operations of a Workload of these variable axes; None if nobody knows the operator.

    The operator is known by the reference's source, or from a Trace that an operator judged (`judged_by`).
    """
    recognition = recognise_source(definition)
    if recognition is None:
        recorded = (each[0] for each in list_candidates(definition) if each and each[0].operator == judged_by)
        recognition = next(recorded, None)
    if recognition is None or not set(definition.var_axes) <= axes.keys():
        return None
    return recognition.count_cost({**definition.const_axes, **axes})


def define_by_name(name: str) -> Definition | None:
    """Make the Definition to which an operator gives this name, such as `rmsnorm_d2048_bf16`; None if none does."""
    return next(filter(None, (operator.define_by_name(name) for operator in list_operators())), None)


def _recognise(
    definition: Definition, operator: Operator, parts: Parts, constants: dict[str, float] | None = None
) -> Recognition:
    outputs = {name: spec.dtype.value for name, spec in definition.outputs.items()}
    several, specs = parts.row_axes, {**definition.inputs, **definition.outputs}
    shapes = {name: (*(spec.shape or ()),) for name, spec in specs.items() if several}
    by_rows = tuple(name for name, shape in shapes.items() if shape[: len(several)] == several)
    by_groups = (name for name, shape in shapes.items() if name not in by_rows and shape[:1] == several[:1])
    return Recognition(
        **vars(parts),
        operator=operator.name,
        outputs=outputs,
        constants=constants or {},
        by_rows=by_rows,
        by_groups=tuple(by_groups),
    )


def default_scalars(definition: Definition) -> dict[str, Scalar]:
    """The usual values of scalar inputs by name, of those that an operator knows one for.

    What only its place makes an eps could be anything. So either the reference is the operator's own, or the input is
    named for its part, as `epsilon` and `norm_eps` are, whoever computes the Definition.
    """
    scalars = [name for name, spec in definition.inputs.items() if spec.shape is None]
    found: dict[str, Scalar] = {}
    for operator, parts in _list_fitting(definition, list_operators()):
        if _is_same_code(definition.reference, operator.reference):
            found |= {parts.tensors[part]: s for part, s in operator.scalars.items() if part in parts.tensors}
    for operator in list_operators():
        for part, scalar in operator.scalars.items():
            named = [name for name in scalars if any(word.startswith(part) for word in name.lower().split("_"))]
            found = {**dict.fromkeys(named, scalar), **found}
    return found


def derive_inputs(definition: Definition, inputs: Inputs) -> dict[str, torch.Tensor]:
    """Make the inputs that must fit the others, by name; none if no operator says so."""
    # Each input of each call that is judged asks, so only those are matched that derive anything.
    deriving = [operator for operator in list_operators() if operator.derived]
    found = next(_list_fitting(definition, deriving), None)
    return _recognise(definition, *found).derive(inputs) if found else {}


def _list_fitting(definition: Definition, operators: Iterable[Operator]) -> Iterator[tuple[Operator, Parts]]:
    for operator in operators:
        if found := operator.list_parts(definition):
            yield operator, found[0]


def _is_same_code(source: str, other: str) -> bool:
    """Whether two sources are the same code, apart from comments, docstrings and names of arguments and variables."""
    try:
        return _dump_without_names(source) == _dump_without_names(other)
    except RecursionError:  # somebody else's source can be nested deeply; no operator's own is
        return False


def _list_literals(source: str) -> list[float]:
    """The numbers in a source, each once, in order."""
    values = (node.value for node in ast.walk(_parse(source)) if isinstance(node, ast.Constant))
    numbers = (value for value in values if isinstance(value, (int, float)) and not isinstance(value, bool))
    return list(dict.fromkeys(float(number) for number in numbers if abs(number) < _HUGE))


def _parse(source: str) -> ast.Module:
    tree = syntax_trees.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.FunctionDef)) and ast.get_docstring(node, clean=False) is not None:
            del node.body[0]
    return tree


def _dump_without_names(source: str) -> str:
    """The tree as text, where each argument and variable has the number of its first place for a name."""
    tree = _parse(source)
    named = [node for node in ast.walk(tree) if isinstance(node, (ast.arg, ast.Name))]
    set_here = [each for each in named if isinstance(each, ast.arg) or isinstance(each.ctx, ast.Store)]
    own = {each.arg if isinstance(each, ast.arg) else each.id for each in set_here}
    numbers: dict[str, str] = {}
    for node in named:
        field = "arg" if isinstance(node, ast.arg) else "id"
        name = getattr(node, field)
        if name in own:
            setattr(node, field, numbers.setdefault(name, str(len(numbers))))
    return ast.dump(tree)
