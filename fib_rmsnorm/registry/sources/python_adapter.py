"""The calling style of a Python entry point, and the lines to add where a file has none that can be called."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.registry.sources.parameters import (
    AdaptedCall,
    Parameters,
    Signature,
    describe_unused,
    find_style,
    plan_call,
    wrong_number,
)
from fib_rmsnorm.registry.sources.python_kernel import PythonModule


def python_style(path: Path, module: PythonModule, entry: str, signature: Signature) -> bool:
    """Whether the entry point is destination-passing; False where the source does not show its parameters.

    Raises InputError, with lines to add if some would do, for an entry point that is missing or that cannot be called
    with the Definition's names in order.
    """
    if not module.defines(entry):
        raise _missing(path, module, entry, signature)
    parameters = module.parameters_of(entry)
    if parameters is None:
        return False
    style = find_style(parameters, signature)
    if style is not None:
        return style
    call = plan_call(parameters, signature)
    if call is None:
        raise wrong_number(str(path), entry, parameters, signature)
    names = ", ".join([*signature.inputs, *(signature.outputs if call.destination_passing_style else ())])
    raise InputError(
        f"{path}: {entry}{parameters} cannot be called as {entry}({names}); add these lines at the end"
        f"{describe_unused(call.unused, entry)}:",
        _call_function(entry, parameters, call, entry, signature),
    )


def _missing(path: Path, module: PythonModule, entry: str, signature: Signature) -> InputError:
    """Make an error for a file without the entry point, which says what to do with what it has."""
    functions = module.host_functions()
    what = f"{path}: no function {entry!r}"
    for name in functions:
        parameters = module.parameters_of(name)
        if parameters is not None and find_style(parameters, signature) is not None:
            return InputError(f"{what} (available: {', '.join(functions)}); choose one with --entry {name}")
    for name, note, paste in _adapters(module, entry, signature):
        return InputError(f"{what}; add these lines at the end, which call {name}{note}:", paste)
    if functions:
        return InputError(f"{what} (available: {', '.join(functions)}); choose one with --entry")
    call = f"{entry}({', '.join(signature.inputs)})"
    return InputError(f"{what}; define {call}, or start from a kernel of: fib-rmsnorm new triton FILE")


def _adapters(module: PythonModule, entry: str, signature: Signature) -> Iterator[tuple[str, str, str]]:
    """What each candidate is called, what its adapter does not pass, and the lines of the adapter."""
    for name in reversed(module.host_functions()):  # the one that uses the others is usually the last
        parameters = module.parameters_of(name)
        call = plan_call(parameters, signature) if parameters else None
        if parameters and call:
            note = describe_unused(call.unused, name)
            yield name, note, _call_function(name, parameters, call, entry, signature)
    for name in reversed(module.classes):
        parameters = module.method(name)
        if parameters is None:
            continue
        if module.is_autograd_function(name):
            call = plan_call(parameters, signature)
            if find_style(parameters, signature) is not None:
                yield f"{name}.apply", "", f"{entry} = {name}.apply"
            elif call:
                note = describe_unused(call.unused, name)
                yield f"{name}.apply", note, _call_function(f"{name}.apply", parameters, call, entry, signature)
        elif found := _call_module(module, name, parameters, entry, signature):
            note, paste = found
            yield name, note, paste


def _call_function(callee: str, parameters: Parameters, call: AdaptedCall, entry: str, signature: Signature) -> str:
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
    names = [*signature.inputs, *(signature.outputs if call.destination_passing_style else ())]
    returns = "" if call.destination_passing_style else "return "
    lines += [f"def {entry}({', '.join(names)}):", f"    {returns}{callee}({', '.join(arguments)})"]
    return "\n".join(lines)


def _call_module(
    module: PythonModule, name: str, parameters: Parameters, entry: str, signature: Signature
) -> tuple[str, str] | None:
    """Lines that call a torch.nn.Module with the Definition's tensors in place of its Parameters.

    None if some tensor is neither a parameter of `forward` nor in the place of a Parameter.
    """
    forward = list(parameters.positional[: parameters.required])
    if parameters.keyword_only or len(forward) > len(signature.inputs):
        return None
    rest = [each for each in signature.inputs if each not in forward]
    passed = [each if each in signature.inputs else rest.pop(0) for each in forward]
    tensors = [each for each in rest if not signature.is_number(each)]
    held, numbers = _attributes(module.classes[name])
    spare = [attribute for attribute in held if attribute not in tensors]
    weights = {each if each in held else spare.pop(0): each for each in tensors if each in held or spare}
    if len(weights) < len(tensors):
        return None
    settings = {
        each: attribute for each in rest for attribute in numbers if signature.is_number(each) and each in attribute
    }
    unused = [each for each in rest if each not in tensors and each not in settings]
    construct, advice = _constructor(module, name, signature)
    mapping = ", ".join(f'"{attribute}": {each}' for attribute, each in weights.items())
    arguments = ", ".join(passed) + ("," if len(passed) == 1 else "")
    lines = ["import torch", "", f"_module = {construct}", "", "", f"def {entry}({', '.join(signature.inputs)}):"]
    lines += [f"    _module.{attribute} = {each}" for each, attribute in settings.items()]
    lines += [f"    return torch.func.functional_call(_module, {{{mapping}}}, ({arguments}))"]
    return describe_unused(unused, name) + advice, "\n".join(lines)


def _attributes(node: ast.ClassDef) -> tuple[list[str], list[str]]:
    """The attributes to which `__init__` assigns a Parameter, and the others."""
    held: list[str] = []
    others: list[str] = []
    for each in ast.walk(node):
        match each:
            case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)], value=value):
                is_parameter = "Parameter(" in ast.unparse(value)
                (held if is_parameter else others).append(name)
    return held, others


def _constructor(module: PythonModule, name: str, signature: Signature) -> tuple[str, str]:
    """How to make an instance, and what the user has to fill in."""
    parameters = module.method(name, "__init__")
    required = parameters.required if parameters else 0
    if required == 0:
        return f"{name}()", ""
    if required == len(signature.constants) == 1:
        return f"{name}({signature.constants[0]})", ""
    return f"{name}(...)", f"; write the arguments of {name} in place of the dots"
