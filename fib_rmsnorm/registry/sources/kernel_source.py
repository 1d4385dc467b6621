"""Read what the source of a kernel tells: its language, its entry point and its calling style. Needs no torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.languages import LANGUAGES, Language
from fib_rmsnorm.registry.registry import Registry
from fib_rmsnorm.registry.sources.native_adapter import find_export, native_style
from fib_rmsnorm.registry.sources.native_kernel import Binding
from fib_rmsnorm.registry.sources.parameters import Signature, make_signature
from fib_rmsnorm.registry.sources.python_adapter import python_style
from fib_rmsnorm.registry.sources.python_kernel import imported_modules, read_module
from fib_rmsnorm.registry.store import read_text

DEFAULT_ENTRY = "run"
GPU_MODULES = {"cutlass"}
"""Python modules whose kernels run on GPUs only: CuTe DSL's."""


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


def check_kernel(registry: Registry, path: Path, definition: str, entry: str | None, style: bool | None) -> None:
    """Check the Definition's name and a kernel's file, before anything is started for an evaluation.

    Raises the InputError that `draft_solution` would raise, with the Definitions that the kernel's parameters fit. A
    folder is left to that.
    """
    signature = make_signature(registry.definition(definition))
    if path.is_dir():
        return
    try:
        read_kernel_source(path, signature, entry, style)
    except InputError as error:
        others = [make_signature(each) for name, each in registry.definitions().items() if name != definition]
        fitting = [other.definition for other in others if find_source(path, other, entry, style)]
        if not fitting:
            raise
        reason = str(error).removeprefix(f"{path}: ")
        message = f"{path}: its parameters fit --definition {' or '.join(fitting)}; otherwise, {reason}"
        raise InputError(message, error.paste) from None


def find_source(path: Path, signature: Signature, entry: str | None, style: bool | None) -> KernelSource | None:
    """A kernel's file; None if its entry point cannot be called with the names of a Definition in order."""
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
