"""What Workloads need beyond a Definition, from an operator whose shapes and dtypes the Definition has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from fib_rmsnorm.operators.known_operators import list_operators
from fib_rmsnorm.operators.operator import Operator, Parts, Scalar
from fib_rmsnorm.operators.reference_source import is_same_code

if TYPE_CHECKING:
    import torch

    from fib_rmsnorm.schema import Definition


def default_sizes(definition: Definition) -> dict[str, tuple[int, ...]]:
    """The usual sizes of variable axes by name, of those that an operator knows some for."""
    found: dict[str, tuple[int, ...]] = {}
    for operator, parts in _list_fitting(definition, list_operators()):
        for part, sizes in operator.sizes.items():
            if parts.axes.get(part) in definition.var_axes:
                found.setdefault(parts.axes[part], sizes)
    return found


def default_scalars(definition: Definition) -> dict[str, Scalar]:
    """The usual values of scalar inputs by name, of those that an operator knows one for.

    What only its place makes an eps could be anything. So either the reference is the operator's own, or the input is
    named for its part, as `epsilon` and `norm_eps` are, whoever computes the Definition.
    """
    scalars = [name for name, spec in definition.inputs.items() if spec.shape is None]
    found: dict[str, Scalar] = {}
    for operator, parts in _list_fitting(definition, list_operators()):
        if any(is_same_code(definition.reference, source) for _, source in operator.list_references()):
            found |= {parts.tensors[part]: s for part, s in operator.scalars.items() if part in parts.tensors}
    for operator in list_operators():
        for part, scalar in operator.scalars.items():
            named = [name for name in scalars if any(word.startswith(part) for word in name.lower().split("_"))]
            found = {**dict.fromkeys(named, scalar), **found}
    return found


def list_derived(definition: Definition) -> list[str]:
    """The inputs that are made from others."""
    operator, parts = _find_deriving(definition) or (None, None)
    if operator is None or parts is None:
        return []
    return [parts.tensors[part] for part in operator.derived if parts.tensors.get(part) in definition.inputs]


def derive_inputs(definition: Definition, inputs: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """Make the inputs that must fit the others, by name; none if no operator says so."""
    operator, parts = _find_deriving(definition) or (None, None)
    if operator is None or parts is None:
        return {}
    by_part = {part: inputs[name] for part, name in parts.tensors.items() if name in inputs}
    return {parts.tensors[part]: value for part, value in operator.derive_inputs(by_part).items()}


def _list_fitting(definition: Definition, operators: Iterable[Operator]) -> Iterator[tuple[Operator, Parts]]:
    for operator in operators:
        parts = operator.find_parts(definition)
        if parts is not None:
            yield operator, parts


def _find_deriving(definition: Definition) -> tuple[Operator, Parts] | None:
    # Each input of each call that is judged asks, so only those are matched that derive anything.
    return next(_list_fitting(definition, [operator for operator in list_operators() if operator.derived]), None)
