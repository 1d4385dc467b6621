"""Read a kernel's file: its language, its entry point and its calling style. Needs no torch."""

from __future__ import annotations

from pathlib import Path

from fib_rmsnorm.errors import InputError, MisfitError
from fib_rmsnorm.languages import LANGUAGES
from fib_rmsnorm.registry.registry import Registry
from fib_rmsnorm.registry.sources.native_kernel import NativeKernel
from fib_rmsnorm.registry.sources.python_kernel import PythonKernel
from fib_rmsnorm.registry.store import read_text
from fib_rmsnorm.schema import Definition

_MOST_NAMED = 6  # Definitions that parameters fit


def read_kernel(path: Path, entry: str | None = None) -> PythonKernel | NativeKernel:
    """Read a `.py`, `.cu` or `.cpp` file. `entry` defaults to `run`, and in C++ and CUDA to the only export.

    The suffix and the imports decide the language. Raises InputError for a file that is none of these, or no Python.
    """
    if not path.is_file():  # reading a FIFO would block
        raise InputError(f"{path}: not a regular file or a folder" if path.exists() else f"no such file: {path}")
    languages = [language for language in LANGUAGES.values() if path.suffix in language.suffixes]
    if not languages:
        raise InputError(f"{path}: unknown language: name the file .py, .cu or .cpp, or give a source folder")
    text = read_text(path)
    if languages[0].is_compiled:
        return NativeKernel(path, text, languages[0], entry)
    return PythonKernel(path, text, languages, entry)


def find_fitting_style(
    registry: Registry, kernel: PythonKernel | NativeKernel, definition: Definition, asked: bool | None = None
) -> bool:
    """Whether a kernel for a Definition is destination-passing: what is `asked`, else what its parameters say.

    One parameter per input is value-returning, one per input and output is destination-passing. Raises InputError that
    says what is wrong or missing, with lines to add where some would do, or MisfitError with the Definitions of the
    registry whose parameters it has instead.
    """
    try:
        return kernel.find_style(definition, asked)
    except InputError:
        parameters = kernel.parameters
        known = registry.definitions() if parameters is not None else {}
        fitting = [name for name, each in known.items() if parameters is not None and parameters.are_of(each)]
        if not fitting or definition.name in fitting:
            raise
        shown = " or ".join([*fitting[:_MOST_NAMED], *(["others"] if len(fitting) > _MOST_NAMED else [])])
        message = f"{kernel.path}: its parameters {parameters} fit {shown}, not {definition.name}"
        raise MisfitError(message, fitting[0]) from None
