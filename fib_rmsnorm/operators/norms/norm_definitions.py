"""The parts of norms over rows: options of `define`, tensors, matches of other names, references, and kernels."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations, product
from typing import TYPE_CHECKING

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.operators.kernel_templates import find_words
from fib_rmsnorm.operators.operator import Option, Parts
from fib_rmsnorm.syntax_trees import parse_expression

if TYPE_CHECKING:
    from fib_rmsnorm.schema import Definition, TensorSpec

DTYPES = {"float16": "", "bfloat16": "_bf16", "float32": "_fp32"}
"""Supported dtypes of activations, and what each adds to the Definition's name."""

SHORT_DTYPES = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32"}
"""Short names of dtypes."""

MOST_HIDDEN = 1 << 20
"""The limit of the hidden size, far above any model's: a mistyped size could need gigabytes per row."""

HIDDEN = Option("hidden", 4096, f"Hidden size, at most {MOST_HIDDEN}.")
DTYPE = Option(
    "dtype",
    "float16",
    f"{', '.join(DTYPES)} (short: {', '.join(SHORT_DTYPES)}). bf16,weight=fp32 gives a "
    "weight and a bias of float32 to an x of bfloat16; bf16,weight=fp32,bias=bf16 a weight alone.",
)


def read_dtypes(text: str, columns: Sequence[str]) -> dict[str, str]:
    """The dtypes of x and of the parts in `columns`, by full names, as told by `float16,weight=float32`.

    x is of float16 unless told, and each other part is of the dtype of the one before it. Raises InputError for a part
    that is told twice or not among them, an unknown dtype, and one that is neither that of x nor float32.
    """
    told: dict[str, str] = {}
    for word in text.split(","):
        part, _, dtype = word.rpartition("=")
        part = part or "x"
        if part in told or part not in ("x", *columns):
            others = "".join(f", then {each}=DTYPE if it differs" for each in columns)
            raise InputError(f"dtype {text!r} does not fit: give one for x{others or ' and all other tensors'}")
        told[part] = SHORT_DTYPES.get(dtype, dtype)
        if told[part] not in DTYPES:
            raise InputError(f"unknown dtype {dtype!r}: choose from {', '.join([*DTYPES, *SHORT_DTYPES])}")
    found = {"x": told.get("x", "float16")}
    for part, before in zip(columns, ("x", *columns), strict=False):
        found[part] = told.get(part, found[before])
        if found[part] not in (found["x"], "float32"):
            raise InputError(f"{part} must have the dtype of x, {found['x']}, or float32, not {found[part]}")
    return found


def name_dtypes(dtypes: Mapping[str, str]) -> str:
    """The end of a Definition's name: the dtype of x, if not float16, and those that differ from the one before."""
    short = {full: name for name, full in SHORT_DTYPES.items()}
    pairs = zip(dtypes, list(dtypes)[1:], strict=False)
    differing = [part for before, part in pairs if dtypes[part] != dtypes[before]]
    return DTYPES[dtypes["x"]] + "".join(f"_{part}_{short[dtypes[part]]}" for part in differing)


AXES = {"rows": "batch", "groups": "batch", "hidden": "hidden"}
"""The axes of a Definition by their parts in shapes."""
Shape = tuple[str, ...]
"""The parts that the axes of a tensor play."""

PER_ELEMENT: Shape = ("rows", "hidden")
PER_COLUMN: Shape = ("hidden",)
PER_GROUP: Shape = ("groups", "hidden")
"""A row for each group of rows, such as the tokens of one sequence of a batch, or for each row."""
PER_ROW: Shape = ("rows",)
NUMBER: Shape = ()
NUMBER_OR_ONE: Shape = ("one",)
"""A number, or a tensor of one element."""


@dataclass(frozen=True)
class NormTensor:
    """An input or output of a norm, which is called as the part that it plays."""

    shape: Shape
    description: str


SCALE = NormTensor(PER_COLUMN, "Learned scale of each hidden element.")


def write_epilogue(expression: str, language: str, columns: Collection[str], kind: str) -> str | None:
    """The lines that write `out`; None if the language lacks a function of the expression."""
    words = find_words(language)

    class Translation(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.Name:
            if node.id == "x":
                return ast.Name(words.normalized[kind])
            if node.id in columns:
                return ast.Name(words.column(node.id))
            return ast.Name(getattr(words, node.id, node.id) if node.id == "rstd" else words.row(node.id))

        def visit_Call(self, node: ast.Call) -> ast.Name:
            return ast.Name(getattr(words, ast.unparse(node.func))(ast.unparse(self.visit(node.args[0]))))

    try:
        return str(words.write(ast.unparse(Translation().visit(parse_expression(expression)))))
    except AttributeError:
        return None


def list_matches(definition: Definition, inputs: Mapping[str, Shape], outputs: Mapping[str, Shape]) -> list[Parts]:
    """All ways in which the tensors can play the parts, those of one shape in the Definition's order first.

    The last axis of the first input of two or more is the hidden size, and those before are the rows. The input `eps`
    may be missing.
    """
    shapes = (spec.shape or [] for spec in definition.inputs.values())
    *before, hidden = next((shape for shape in shapes if len(shape) > 1), [""])
    variable = [axis for axis in before if axis in definition.var_axes]
    if hidden in before or len({*before}) < max(1, len(before)) or (len(before) > 1 and not variable):
        return []
    if len(definition.inputs) == len(inputs) - 1:
        inputs = {part: shape for part, shape in inputs.items() if part != "eps"}
    axes = {name: NUMBER_OR_ONE[0] for name, size in definition.const_axes.items() if size == 1}
    axes[hidden] = "hidden"
    taken = _list_assignments(inputs, _list_shapes(definition.inputs, before, axes))
    given = _list_assignments(outputs, _list_shapes(definition.outputs, before, axes))
    by_part = {"rows": [*variable, *before][0], "hidden": hidden}
    several = tuple(before) if len(before) > 1 else ()
    return [Parts({**into, **out}, by_part, row_axes=several) for into, out in product(taken, given)]


_ALSO = {NUMBER_OR_ONE: NUMBER, PER_GROUP: PER_ELEMENT}
"""Other shapes that a tensor may have."""


def _list_shapes(specs: Mapping[str, TensorSpec], row_axes: Sequence[str], axes: Mapping[str, str]) -> dict[str, Shape]:
    """The shape of each tensor; an axis that plays no part is called by its own name in quotes."""

    def name_parts(shape: Sequence[str]) -> Shape:
        # The first of several axes of rows, perhaps axes of one element, and the hidden size.
        *before, hidden = [axis for axis in shape if axes.get(axis) != NUMBER_OR_ONE[0]] or [""]
        if axes.get(hidden) == "hidden" and 0 < len(before) < len(row_axes) and before == [*row_axes[: len(before)]]:
            return PER_GROUP
        is_of_rows = [*shape[: len(row_axes)]] == [*row_axes]
        others = shape[len(row_axes) :] if is_of_rows else shape
        return (*(["rows"] if is_of_rows else []), *(axes.get(axis, repr(axis)) for axis in others))

    return {name: name_parts(spec.shape or ()) for name, spec in specs.items()}


def _list_assignments(parts: Mapping[str, Shape], tensors: Mapping[str, Shape]) -> Iterator[dict[str, str]]:
    """Assign a tensor to each part, in all ways that the shapes allow."""
    if len(parts) != len(tensors):
        return
    for names in permutations(tensors):
        given = zip((tensors[name] for name in names), parts.values(), strict=True)
        if all(shape in (wanted, _ALSO.get(wanted)) for shape, wanted in given):
            yield dict(zip(parts, names, strict=True))
