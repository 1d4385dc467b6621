"""Read what the source of a kernel tells: its language, its entry point and its calling style. Needs no torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fib_rmsnorm.errors import InputError, MisfitError
from fib_rmsnorm.languages import LANGUAGES, Language
from fib_rmsnorm.registry.registry import Registry
from fib_rmsnorm.registry.sources.native_adapter import find_export, native_style
from fib_rmsnorm.registry.sources.native_kernel import Binding
from fib_rmsnorm.registry.sources.parameters import Signature, make_signature
from fib_rmsnorm.registry.sources.python_adapter import python_style
from fib_rmsnorm.registry.sources.python_kernel import imported_modules, read_module
from fib_rmsnorm.registry.store import read_text
from fib_rmsnorm.schema import Definition

DEFAULT_ENTRY = "run"
GPU_MODULES = {"cutlass"}
"""Python modules whose kernels run on GPUs only: CuTe DSL's."""
_MOST_NAMED = 6  # Definitions that parameters fit


@dataclass(frozen=True)
class KernelSource:
    """The file of a kernel, and what it tells."""

    path: Path
    text: str
    language: Language
    entry: str
    """The name of the entry point."""
    destination_passing_style: bool
    target_hardware: tuple[str, ...]
    binding: Binding | None = None
    """None for a language that is not compiled."""
    parameters: tuple[str, ...] = ()
    """The names of the entry point's parameters; empty where the source does not show them."""

    def has_names_of(self, signature: Signature) -> bool:
        """Whether the parameters are called as the Definition's inputs and outputs are, in this order."""
        names = (*signature.inputs, *(signature.outputs if self.destination_passing_style else ()))
        return self.parameters[: len(names)] == names


def read_fitting(
    registry: Registry, path: Path, definition: Definition, entry: str | None = None, style: bool | None = None
) -> KernelSource:
    """Read a kernel's file for a Definition, as `read_kernel_source` does.

    Raises MisfitError with the Definitions of the registry that its parameters fit instead, if there are any.
    """
    try:
        return read_kernel_source(path, make_signature(definition), entry, style)
    except InputError as error:
        others = [make_signature(each) for name, each in registry.definitions().items() if name != definition.name]
        fitting = [(each, source) for each in others if (source := _find_source(path, each, entry, style))]
        same = [each for each in fitting if each[1].has_names_of(each[0])]
        if not fitting or (error.paste and not same):
            raise
        names = [signature.definition for signature, _ in same or fitting]
        parameters = ", ".join(fitting[0][1].parameters)
        message = f"{path}: its parameters ({parameters}) fit {_name_some(names)}, not {definition.name}"
        raise MisfitError(message, names[0]) from None


def _name_some(names: Sequence[str]) -> str:
    told = [*names[:_MOST_NAMED], *(["others"] if len(names) > _MOST_NAMED else [])]
    return " or ".join([", ".join(told[:-1]), told[-1]] if len(told) > 1 else told)


def _find_source(path: Path, signature: Signature, entry: str | None, style: bool | None) -> KernelSource | None:
    try:
        return read_kernel_source(path, signature, entry, style)
    except InputError:
        return None


def read_kernel_source(
    path: Path, signature: Signature, entry: str | None = None, style: bool | None = None
) -> KernelSource:
    """Read a `.py`, `.cu` or `.cpp` file. `entry` defaults to `run`, and in C++ and CUDA to the only export.

    The suffix and the imports decide the language. The parameters of the entry point decide the calling style unless
    `style` does (True is destination-passing): one per input is value-returning, one per input and output is
    destination-passing. Raises InputError that says what is wrong or missing, with lines to add where some would do.
    """
    if not path.is_file():  # reading a FIFO would block
        raise InputError(f"{path}: not a regular file or a folder" if path.exists() else f"no such file: {path}")
    languages = [language for language in LANGUAGES.values() if path.suffix in language.suffixes]
    if not languages:
        raise InputError(f"{path}: unknown language: name the file .py, .cu or .cpp, or give a source folder")
    text = read_text(path)
    if any(language.is_compiled for language in languages):
        return _read_compiled(path, text, languages[0], signature, entry, style)
    return _read_python(path, text, languages, signature, entry or DEFAULT_ENTRY, style)


def check_module_name(path: Path) -> None:
    """Raise InputError for a dot in the name of a Python file: it would name a module in a package."""
    if "." in path.stem:
        better = path.stem.replace(".", "_") + path.suffix
        raise InputError(
            f"{path}: Python cannot import a file with a dot in its name; rename it, for example to {better}"
        )


def _read_python(
    path: Path, text: str, languages: Sequence[Language], signature: Signature, entry: str, style: bool | None
) -> KernelSource:
    check_module_name(path)
    module = read_module(path, text)
    imported = {name.split(".")[0] for name in imported_modules(module.tree)}
    plain = next(language for language in languages if language.module is None)
    language = next((known for known in languages if known.module in imported), plain)
    if style is None or not module.defines(entry):
        style = python_style(path, module, entry, signature)
    hardware = ("cuda",) if imported & GPU_MODULES else tuple(language.target_hardware)
    shown = module.parameters_of(entry) if module.defines(entry) else None
    names = shown.positional if shown else ()
    return KernelSource(path, text, language, entry, style, hardware, parameters=names)


def _read_compiled(
    path: Path, text: str, language: Language, signature: Signature, entry: str | None, style: bool | None
) -> KernelSource:
    name, export = find_export(path, text, entry, signature)
    if style is None:
        style = native_style(path, name, export, signature)
    hardware = tuple(language.target_hardware)
    names = export.by_name.positional if export.by_name else ()
    return KernelSource(path, text, language, name, style, hardware, export.binding, names)
