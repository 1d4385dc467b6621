"""How the parameters of an entry point match a Definition: the calling style, or what an adapter must pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.schema import Definition


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

    def are_of(self, definition: Definition) -> bool:
        """Whether they are called as the Definition's inputs, or inputs and outputs, are, in this order."""
        inputs = tuple(definition.inputs)
        return not self.keyword_only and self.positional in (inputs, (*inputs, *definition.outputs))


@dataclass(frozen=True)
class AdaptedCall:
    """A call of a function by the names of a Definition."""

    names: tuple[str, ...]
    """The parameters of the entry point: the inputs, and the outputs if it is destination-passing."""
    is_destination_passing: bool
    arguments: dict[str, str]
    """For each parameter of the function, in its order, the name that it gets."""
    unused: tuple[str, ...]
    """Inputs that the function does not take."""


def is_number(definition: Definition, name: str) -> bool:
    """Whether an input is a number."""
    return name in definition.inputs and definition.inputs[name].shape is None


def find_style(parameters: Parameters, definition: Definition) -> bool | None:
    """Whether a function is destination-passing; None if it cannot be called with the Definition's names in order.

    The number of parameters decides. A parameter that has another name than the Definition's counts as the one at its
    place; one that has a name of the Definition's at another place does not.
    """
    everything = (*definition.inputs, *definition.outputs)
    if parameters.keyword_only:
        return None
    if parameters.required == len(everything):
        return True if _in_order(parameters.positional, everything) else None
    if parameters.required <= len(definition.inputs) <= len(parameters.positional):
        return False if _in_order(parameters.positional, tuple(definition.inputs)) else None
    return None


def plan_call(parameters: Parameters, definition: Definition) -> AdaptedCall | None:
    """Match a function's parameters with the Definition's names: by name where they agree, the others in order.

    None if a parameter remains, or a tensor that the function does not take.
    """
    everything = (*definition.inputs, *definition.outputs)
    wanted = [*parameters.positional[: parameters.required], *parameters.keyword_only]
    wanted += [name for name in parameters.positional[parameters.required :] if name in everything]
    is_destination = len(wanted) == len(everything) or bool(set(wanted) & set(definition.outputs))
    names = everything if is_destination else tuple(definition.inputs)
    arguments = _match(wanted, names)
    unused = tuple(name for name in names if name not in arguments.values())
    if len(arguments) < len(wanted) or not all(is_number(definition, name) for name in unused):
        return None
    order = [*parameters.positional, *parameters.keyword_only]
    return AdaptedCall(names, is_destination, {name: arguments[name] for name in order if name in arguments}, unused)


def require_call(where: str, function: str, parameters: Parameters, definition: Definition) -> AdaptedCall:
    """Plan a call. Raises InputError for a function that takes neither the inputs, nor the inputs and outputs."""
    call = plan_call(parameters, definition)
    if call is not None:
        return call
    inputs, everything = [*definition.inputs], [*definition.inputs, *definition.outputs]
    raise InputError(
        f"{where}: {function} takes {parameters.required} parameters {parameters}; {definition.name} needs"
        f" {len(inputs)} ({', '.join(inputs)}) and a returned result, or {len(everything)} ({', '.join(everything)})"
    )


def find_python_style(
    where: str,
    entry: str,
    parameters: Parameters | None,
    functions: Mapping[str, Parameters | None],
    definition: Definition,
) -> bool:
    """Whether an entry point in Python is destination-passing, by its parameters; None if the file has no such one.

    Raises InputError, with lines to add if some would do, for an entry point that is missing or that cannot be called
    with the Definition's names in order. `functions` are those of the file that may be meant.
    """
    if parameters is not None:
        style = find_style(parameters, definition)
        if style is not None:
            return style
        call = require_call(where, entry, parameters, definition)
        raise InputError(
            f"{where}: {entry}{parameters} cannot be called as {entry}({', '.join(call.names)}); add these lines at"
            f" the end{describe_unused(call.unused, entry)}:",
            _call_function(entry, parameters, call, entry),
        )
    what, available = f"{where}: no function {entry!r}", f"(available: {', '.join(functions)})"
    known = {name: each for name, each in functions.items() if each is not None}
    for name, each in known.items():
        if find_style(each, definition) is not None:
            raise InputError(f"{what} {available}; choose one with --entry {name}")
    for name, each in reversed(known.items()):  # the last, which usually uses the others, comes first
        if planned := plan_call(each, definition):
            note, paste = describe_unused(planned.unused, name), _call_function(name, each, planned, entry)
            raise InputError(f"{what}; add these lines at the end, which call {name}{note}:", paste)
    if functions:
        raise InputError(f"{what} {available}; choose one with --entry")
    usual = f"{entry}({', '.join(definition.inputs)})"
    raise InputError(f"{what}; define {usual}, or start from a kernel of: fib-rmsnorm new triton FILE")


def _call_function(callee: str, parameters: Parameters, call: AdaptedCall, entry: str) -> str:
    """The lines that define the entry point, which calls another function or the one of its name before."""
    lines = []
    if callee == entry:
        callee = f"_{entry}"
        lines = [f"{callee} = {entry}", "", ""]
    arguments = []
    by_keyword = False
    for name in parameters.positional:
        if name in call.arguments:
            arguments.append(f"{name}={call.arguments[name]}" if by_keyword else call.arguments[name])
        else:
            by_keyword = True  # what follows a parameter that keeps its default
    arguments += [f"{name}={call.arguments[name]}" for name in parameters.keyword_only]
    returns = "" if call.is_destination_passing else "return "
    lines += [f"def {entry}({', '.join(call.names)}):", f"    {returns}{callee}({', '.join(arguments)})"]
    return "\n".join(lines)


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
