"""Read what the source of a kernel tells: its language, its entry point and its calling style. Needs no torch."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.languages import LANGUAGES, Language
from fib_rmsnorm.registry.layout import Layout
from fib_rmsnorm.registry.signatures import Signature, read_signature
from fib_rmsnorm.registry.store import read_text

DEFAULT_ENTRY = "run"
GPU_MODULES = {"cutlass"}
"""Python modules whose kernels run on GPUs only: CuTe DSL's."""

Binding = Literal["tvm-ffi", "torch"]
"""How a compiled kernel exports its entry point, in the schema's words."""


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


def check_kernel(root: Path, path: Path, definition: str, entry: str | None) -> None:
    """Check what can be checked without torch, which takes seconds to import: the Definition's name, and the source.

    Raises the InputError that `draft_solution` would raise. A folder, or a faulty registry, is left to that.
    """
    signature = read_signature(Layout(root), definition)
    if signature is not None and not path.is_dir():
        read_kernel_source(path, signature, entry)


def read_kernel_source(path: Path, signature: Signature, entry: str | None = None) -> KernelSource:
    """Read a `.py`, `.cu` or `.cpp` file. `entry` defaults to `run`.

    The suffix and the imports decide the language. The number of parameters of the entry point decides the calling
    style: one per input is value-returning, one per input and output is destination-passing. Raises InputError that
    says what is wrong or missing.
    """
    if not path.is_file():  # reading a FIFO would block
        raise InputError(f"{path}: not a regular file or a folder" if path.exists() else f"no such file: {path}")
    languages = [language for language in LANGUAGES.values() if path.suffix in language.suffixes]
    if not languages:
        raise InputError(f"{path}: unknown language: name the file .py, .cu or .cpp, or give a source folder")
    text = read_text(path)
    if any(language.is_compiled for language in languages):
        return _read_compiled(path, text, languages[0], signature, entry or DEFAULT_ENTRY)
    return _read_python(path, text, languages, signature, entry or DEFAULT_ENTRY)


def _read_python(
    path: Path, text: str, languages: Sequence[Language], signature: Signature, entry: str
) -> KernelSource:
    tree = parse_python(path, text)
    imported = {name.split(".")[0] for name in imported_modules(tree)}
    plain = next(language for language in languages if language.module is None)
    language = next((known for known in languages if known.module in imported), plain)
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    if entry not in functions:
        known = ", ".join(functions) or "none"
        raise InputError(f"{path}: no function {entry!r} (available: {known}); choose one with --entry")
    parameters = functions[entry].args
    positional = [*parameters.posonlyargs, *parameters.args]
    required = len(positional) - len(parameters.defaults)
    style = _calling_style(path, entry, required, len(positional), signature)
    hardware = ("cuda",) if imported & GPU_MODULES else tuple(language.target_hardware)
    return KernelSource(path, text, language, entry, style, hardware)


def parse_python(path: Path, text: str) -> ast.Module:
    """Parse a Python file. Raises InputError with the line of a syntax error."""
    try:
        return ast.parse(text)
    except SyntaxError as error:
        raise InputError(f"{path}:{error.lineno}: {error.msg}") from None
    except (RecursionError, MemoryError):  # Python versions differ in which one they raise
        raise InputError(f"{path}: too deeply nested for Python") from None


def imported_modules(tree: ast.Module) -> list[str]:
    """The dotted names of the modules that a Python file imports, anywhere in it."""
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.append(node.module)
    return names


def _read_compiled(path: Path, text: str, language: Language, signature: Signature, entry: str) -> KernelSource:
    exported = re.search(rf"TVM_FFI_DLL_EXPORT_TYPED_FUNC\(\s*{re.escape(entry)}\s*,\s*([\w:]+)\s*\)", text)
    bound = re.search(rf'\.def\(\s*"{re.escape(entry)}"\s*,\s*&?\s*([\w:]+)', text)
    match = exported or bound
    if match is None:
        raise InputError(
            f"{path}: does not export {entry!r}: add TVM_FFI_DLL_EXPORT_TYPED_FUNC({entry}, Function), where Function"
            " is a host function that takes tvm::ffi::TensorView (a __global__ function cannot be the entry point)"
        )
    function = match.group(1).rpartition("::")[2]
    parameters = re.search(rf"\b{re.escape(function)}\s*\(([^)]*)\)\s*\{{", text)
    count = len(parameters.group(1).split(",")) if parameters and parameters.group(1).strip() else None
    if count is None:
        raise InputError(f"{path}: cannot find the definition of {function}, which {entry!r} exports")
    style = _calling_style(path, function, count, count, signature)
    binding: Binding = "tvm-ffi" if exported else "torch"
    return KernelSource(path, text, language, entry, style, tuple(language.target_hardware), binding)


def _calling_style(path: Path, entry: str, required: int, most: int, signature: Signature) -> bool:
    """Whether the entry point is destination-passing, from the number of its positional parameters."""
    inputs, outputs = len(signature.inputs), len(signature.outputs)
    if required == inputs + outputs:
        return True
    if required <= inputs <= most:
        return False
    names = ", ".join([*signature.inputs, *signature.outputs])
    raise InputError(
        f"{path}: {entry} takes {required} parameters; {signature.definition} needs {inputs}"
        f" ({', '.join(signature.inputs)}) and a returned result, or {inputs + outputs} ({names})"
    )
