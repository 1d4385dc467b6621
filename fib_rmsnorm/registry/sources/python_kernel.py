"""A kernel's file in Python, read without running it: its entry point, or the lines to add that make one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.languages import Language
from fib_rmsnorm.registry.sources.parameters import (
    AdaptedCall,
    Parameters,
    describe_unused,
    find_style,
    plan_call,
    require_call,
)
from fib_rmsnorm.registry.sources.python_module import PythonModule, read_module
from fib_rmsnorm.schema import Definition


class PythonKernel:
    """The file of a kernel, and its entry point: `entry`, else `run`. Its imports decide the language."""

    binding = None

    def __init__(self, path: Path, text: str, languages: Sequence[Language], entry: str | None) -> None:
        check_module_name(path)
        self.path, self.text, self.entry = path, text, entry or "run"
        self.module = read_module(path, text)
        plain = next(language for language in languages if language.module is None)
        self.language = next((known for known in languages if known.module in self.module.imports), plain)
        self.target_hardware = list(self.language.target_hardware)

    @property
    def parameters(self) -> Parameters | None:
        """Those of the entry point; None where the source does not show them."""
        return self.module.parameters_of(self.entry)

    def find_style(self, definition: Definition, asked: bool | None) -> bool:
        """Whether the entry point is destination-passing; `asked` decides it if it is not None.

        False where the source does not show its parameters. Raises InputError, with lines to add if some would do, for
        an entry point that is missing or that cannot be called with the Definition's names in order.
        """
        entry, parameters = self.entry, self.parameters
        if not self.module.defines(entry):
            raise self._missing(definition)
        if asked is not None or parameters is None:
            return asked or False
        style = find_style(parameters, definition)
        if style is not None:
            return style
        call = require_call(str(self.path), entry, parameters, definition)
        raise InputError(
            f"{self.path}: {entry}{parameters} cannot be called as {entry}({', '.join(call.names)}); add these lines at"
            f" the end{describe_unused(call.unused, entry)}:",
            _call_function(entry, parameters, call, entry),
        )

    def _missing(self, definition: Definition) -> InputError:
        """Make an error for a file without the entry point, which says what to do with what it has."""
        functions = self.module.host_functions()
        what, available = f"{self.path}: no function {self.entry!r}", f"(available: {', '.join(functions)})"
        for name in functions:
            parameters = self.module.parameters_of(name)
            if parameters is not None and find_style(parameters, definition) is not None:
                return InputError(f"{what} {available}; choose one with --entry {name}")
        for name, note, paste in _adapters(self.module, self.entry, definition):
            return InputError(f"{what}; add these lines at the end, which call {name}{note}:", paste)
        if functions:
            return InputError(f"{what} {available}; choose one with --entry")
        call = f"{self.entry}({', '.join(definition.inputs)})"
        return InputError(f"{what}; define {call}, or start from a kernel of: fib-rmsnorm new triton FILE")


def check_module_name(path: Path) -> None:
    """Raise InputError for a dot in the name of a Python file: it would name a module in a package."""
    if "." in path.stem:
        better = path.stem.replace(".", "_") + path.suffix
        raise InputError(
            f"{path}: Python cannot import a file with a dot in its name; rename it, for example to {better}"
        )


def _adapters(module: PythonModule, entry: str, definition: Definition) -> Iterator[tuple[str, str, str]]:
    """What each candidate is called, what its adapter does not pass, and the lines of the adapter."""
    for name in reversed(module.host_functions()):  # the last, which usually uses the others, comes first
        parameters = module.parameters_of(name)
        if parameters is None:
            continue
        if find_style(parameters, definition) is not None:
            yield name, "", f"{entry} = {name}"
        elif call := plan_call(parameters, definition):
            yield name, describe_unused(call.unused, name), _call_function(name, parameters, call, entry)


def _call_function(callee: str, parameters: Parameters, call: AdaptedCall, entry: str) -> str:
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
