"""How the parameters of an entry point match a Definition: the calling style, or what an adapter must pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.schema import Definition


@dataclass(frozen=True)
class Signature:
    """A Definition's inputs and outputs, which are the parameters of its kernels."""

    definition: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    shapes: Mapping[str, tuple[str, ...]]
    """The axes of each input and output that is a tensor; the others are numbers."""
    constants: tuple[int, ...]
    """The sizes of the constant axes."""

    def is_number(self, name: str) -> bool:
        """Whether an input is a number."""
        return name not in self.shapes


def make_signature(definition: Definition) -> Signature:
    """Make the signature of a Definition."""
    tensors = {**definition.inputs, **definition.outputs}
    return Signature(
        definition.name,
        tuple(definition.inputs),
        tuple(definition.outputs),
        {name: tuple(spec.shape) for name, spec in tensors.items() if spec.shape is not None},
        tuple(definition.const_axes.values()),
    )


@dataclass(frozen=True)
class Parameters:
    """The parameters of a function."""

    positional: tuple[str, ...]
    required: int
    """How many of the positional parameters have no default."""
    keyword_only: tuple[str, ...] = ()
    """Those without a default."""

    def __str__(self) -> str:
        return f"({', '.join([*self.positional, *(['*', *self.keyword_only] if self.keyword_only else [])])})"


@dataclass(frozen=True)
class AdaptedCall:
    """A call of a function by the names of a Definition."""

    destination_passing_style: bool
    arguments: dict[str, str]
    """For each parameter of the function, in its order, the name that it gets."""
    unused: tuple[str, ...]
    """Inputs that the function does not take."""


def find_style(parameters: Parameters, signature: Signature) -> bool | None:
    """Whether a function is destination-passing; None if it cannot be called with the Definition's names in order.

    The number of parameters decides. A parameter that has another name than the Definition's counts as the one at its
    place; one that has a name of the Definition's at another place does not.
    """
    everything = (*signature.inputs, *signature.outputs)
    if parameters.keyword_only:
        return None
    if parameters.required == len(everything):
        return True if _in_order(parameters.positional, everything) else None
    if parameters.required <= len(signature.inputs) <= len(parameters.positional):
        return False if _in_order(parameters.positional, signature.inputs) else None
    return None


def plan_call(parameters: Parameters, signature: Signature) -> AdaptedCall | None:
    """Match a function's parameters with the Definition's names: by name where they agree, the others in order.

    None if a parameter remains, or a tensor that the function does not take.
    """
    everything = (*signature.inputs, *signature.outputs)
    wanted = [*parameters.positional[: parameters.required], *parameters.keyword_only]
    wanted += [name for name in parameters.positional[parameters.required :] if name in everything]
    is_destination = len(wanted) == len(everything) or bool(set(wanted) & set(signature.outputs))
    names = everything if is_destination else signature.inputs
    arguments = _match(wanted, names)
    unused = tuple(name for name in names if name not in arguments.values())
    if len(arguments) < len(wanted) or not all(map(signature.is_number, unused)):
        return None
    order = [*parameters.positional, *parameters.keyword_only]
    return AdaptedCall(is_destination, {name: arguments[name] for name in order if name in arguments}, unused)


def wrong_number(where: str, function: str, parameters: Parameters, signature: Signature) -> InputError:
    """Make an error for a function that takes neither the inputs, nor the inputs and outputs."""
    inputs, everything = signature.inputs, (*signature.inputs, *signature.outputs)
    return InputError(
        f"{where}: {function} takes {parameters.required} parameters {parameters}; {signature.definition} needs"
        f" {len(inputs)} ({', '.join(inputs)}) and a returned result, or {len(everything)} ({', '.join(everything)})"
    )


def describe_unused(unused: Sequence[str], function: str) -> str:
    """Say which inputs an adapter does not pass; empty if there is none."""
    return f"; {' and '.join(unused)} is not passed, because {function} takes none" if unused else ""


def _match(parameters: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    rest = iter([name for name in names if name not in parameters])
    matched: dict[str, str] = {}
    for parameter in parameters:
        name = parameter if parameter in names else next(rest, None)
        if name is not None:
            matched[parameter] = name
    return matched


def _in_order(parameters: Sequence[str], names: Sequence[str]) -> bool:
    return list(_match(parameters[: len(names)], names).values()) == list(names)
