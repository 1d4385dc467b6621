"""Make a temporary Solution from a kernel file: language, entry point and calling style are read from the source."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

from pydantic import ValidationError

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.languages import LANGUAGES, Language
from fib_rmsnorm.registry import Registry, pack
from fib_rmsnorm.registry.sources.manifest import MANIFEST, read_manifest
from fib_rmsnorm.registry.sources.packing import definition_suffix
from fib_rmsnorm.registry.sources.source_folder import find_included, read_sources
from fib_rmsnorm.registry.store import describe, read_text
from fib_rmsnorm.schema import (
    BuildSpec,
    Definition,
    Solution,
    SourceFile,
    SupportedBindings,
    SupportedLanguages,
)

AUTHOR = "draft"
DEFAULT_ENTRY = "run"
DEFAULT_DEFINITION = "rmsnorm_d4096"

_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def find_solution(
    registry: Registry, name: str, definition: str | None = None, entry: str | None = None
) -> tuple[Definition, Solution]:
    """Find the Solution that a command's argument names, with its Definition; the argument may be a file or folder.

    A registered Solution is packed from its current sources. `definition` selects another Definition that the same
    sources serve. `entry` names another function of a file or folder than the default. Raises InputError with similar
    names for an unknown name, or for an `entry` of a registered Solution.
    """
    path = Path(name)
    if definition is not None:
        registry.definition(definition)  # reports an unknown Definition before an unknown Solution
    if path.exists() and (path.suffix or "/" in name):
        wanted = registry.definition(definition or DEFAULT_DEFINITION)
        return wanted, draft_solution(registry, path, wanted, entry)
    refuse_entry(name, entry)
    solutions = {**registry.solutions(), **{solution.name: solution for solution in pack(registry)}}
    found = solutions.get(name)
    if definition is not None and (found is None or found.definition != definition):
        found = solutions.get(name + definition_suffix(definition))
    if found is None:
        close = get_close_matches(name, solutions, n=3, cutoff=0.5)
        hint = f"similar: {', '.join(close)}" if close else "see: fib-rmsnorm list solutions"
        what = f"{name!r} for {definition}" if definition else repr(name)
        raise InputError(f"no Solution {what} ({hint})")
    return registry.definition(found.definition), found


def refuse_entry(name: str, entry: str | None) -> None:
    """Raise InputError if an entry point is chosen for a registered Solution."""
    if entry is not None:
        raise InputError(
            f"--entry {entry}: {name!r} is not a kernel's file or folder; a Solution names its own function"
        )


def draft_solution(registry: Registry, path: Path, definition: Definition, entry: str | None = None) -> Solution:
    """Make a Solution from a kernel: a `.py`, `.cu` or `.cpp` file with the files it includes, or a source folder.

    A solution.toml in the folder may include shared files of the registry. The suffix and the imports decide the
    language. The number of parameters of the entry point decides the calling style: one per input is value-returning,
    one per input and output is destination-passing. Raises InputError that says what is missing.
    """
    if path.is_dir():
        return _draft_folder(registry, path, definition, entry)
    if not path.is_file():  # reading a FIFO would block
        raise InputError(f"{path}: not a regular file or a folder")
    text = read_text(path)
    shared = _find_shared(registry, path.parent)
    languages = [language for language in LANGUAGES.values() if path.suffix in language.suffixes]
    if any(language.is_compiled for language in languages):
        spec = _native_spec(path, text, languages[0], definition, entry or DEFAULT_ENTRY)
        sources = _with_includes(path, shared)
    elif languages:
        spec = _python_spec(path, text, languages, definition, entry or DEFAULT_ENTRY)
        sources = _with_siblings(path, text, shared)
    else:
        raise InputError(f"{path}: unknown language: name the file .py, .cu or .cpp, or give a source folder")
    return _solution(path, definition, spec, sources)


def _solution(path: Path, definition: Definition, spec: BuildSpec, sources: list[SourceFile]) -> Solution:
    try:
        return Solution(name=path.name, definition=definition.name, author=AUTHOR, spec=spec, sources=sources)
    except ValidationError as error:
        raise InputError(f"{path}: {describe(error)}") from None


def _find_shared(registry: Registry, folder: Path) -> dict[str, Path]:
    """Find what the folder's manifest adds to a kernel's file: included files, and the table of tuned choices."""
    if not (folder / MANIFEST).exists():
        return {}
    manifest = read_manifest(folder / MANIFEST)
    table = manifest.tune.table if manifest.tune else None
    return {
        **find_included(folder, manifest.include, registry.layout.solutions),
        **({table: folder / table} if table and (folder / table).is_file() else {}),
    }


def _draft_folder(registry: Registry, path: Path, definition: Definition, entry: str | None) -> Solution:
    if not (path / MANIFEST).exists():
        raise InputError(f"{path}: this folder has no {MANIFEST}; add one, or name the kernel's file")
    manifest = read_manifest(path / MANIFEST)
    spec = manifest.spec
    if entry:
        spec = spec.model_copy(update={"entry_point": f"{spec.entry_point.partition('::')[0]}::{entry}"})
    sources = read_sources(path, manifest.include, registry.layout.solutions)
    return _solution(path.resolve(), definition, spec, sources)


def _python_spec(path: Path, text: str, languages: Sequence[Language], definition: Definition, entry: str) -> BuildSpec:
    tree = _parse(path, text)
    imported = {name.split(".")[0] for name in _imported_modules(tree)}
    plain = next(language for language in languages if language.module is None)
    language = next((known for known in languages if known.module in imported), plain)
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    if entry not in functions:
        known = ", ".join(functions) or "none"
        raise InputError(f"{path}: no function {entry!r} (available: {known}); choose one with --entry")
    parameters = functions[entry].args
    positional = [*parameters.posonlyargs, *parameters.args]
    required = len(positional) - len(parameters.defaults)
    style = _calling_style(path, entry, required, len(positional), definition)
    return BuildSpec(
        language=SupportedLanguages(language.name),
        target_hardware=language.target_hardware,
        entry_point=f"{path.name}::{entry}",
        destination_passing_style=style,
    )


def _parse(path: Path, text: str) -> ast.Module:
    try:
        return ast.parse(text)
    except SyntaxError as error:
        raise InputError(f"{path}:{error.lineno}: {error.msg}") from None
    except (RecursionError, MemoryError):  # Python versions differ in which one they raise
        raise InputError(f"{path}: too deeply nested for Python") from None


def _calling_style(path: Path, entry: str, required: int, most: int, definition: Definition) -> bool:
    """Whether the entry point is destination-passing, from the number of its positional parameters."""
    inputs, outputs = len(definition.inputs), len(definition.outputs)
    if required == inputs + outputs:
        return True
    if required <= inputs <= most:
        return False
    names = ", ".join([*definition.inputs, *definition.outputs])
    raise InputError(
        f"{path}: {entry} takes {required} parameters; {definition.name} needs {inputs} ({names.rpartition(', ')[0]})"
        f" and a returned result, or {inputs + outputs} ({names})"
    )


def _imported_modules(tree: ast.Module) -> list[str]:
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.append(node.module)
    return names


def _with_siblings(path: Path, text: str, shared: dict[str, Path]) -> list[SourceFile]:
    """Return the file, the modules beside it or shared that it imports directly or indirectly, and shared data."""
    data = {name: file for name, file in shared.items() if file.suffix != ".py"}
    found = {name: SourceFile(path=name, content=read_text(file)) for name, file in data.items()}
    waiting = [(path, text)]
    while waiting:
        file, content = waiting.pop()
        if file.name in found:
            continue
        found[file.name] = SourceFile(path=file.name, content=content)
        for name in _imported_modules(_parse(file, content)):
            module = f"{name.split('.')[0]}.py"
            sibling = shared.get(module, path.parent / module)
            if sibling.is_file():
                waiting.append((sibling, read_text(sibling)))
    return list(found.values())


def _native_spec(path: Path, text: str, language: Language, definition: Definition, entry: str) -> BuildSpec:
    exported = re.search(rf"TVM_FFI_DLL_EXPORT_TYPED_FUNC\(\s*{re.escape(entry)}\s*,\s*([\w:]+)\s*\)", text)
    bound = re.search(rf'\.def\(\s*"{re.escape(entry)}"\s*,\s*&?\s*([\w:]+)', text)
    match = exported or bound
    if match is None:
        raise InputError(
            f"{path}: does not export {entry!r}: add TVM_FFI_DLL_EXPORT_TYPED_FUNC({entry}, Function), where Function"
            " is a host function that takes tvm::ffi::TensorView (a __global__ function cannot be the entry point)"
        )
    function = match.group(1).rpartition("::")[2]
    signature = re.search(rf"\b{re.escape(function)}\s*\(([^)]*)\)\s*\{{", text)
    count = len(signature.group(1).split(",")) if signature and signature.group(1).strip() else None
    if count is None:
        raise InputError(f"{path}: cannot find the definition of {function}, which {entry!r} exports")
    return BuildSpec(
        language=SupportedLanguages(language.name),
        target_hardware=language.target_hardware,
        entry_point=f"{path.name}::{entry}",
        destination_passing_style=_calling_style(path, function, count, count, definition),
        binding=SupportedBindings.TVM_FFI if exported else SupportedBindings.TORCH,
    )


def _with_includes(path: Path, shared: dict[str, Path]) -> list[SourceFile]:
    """Return the file and every header, in its folder or shared, that it includes with quotes."""
    folder = path.parent.resolve()
    found: dict[str, SourceFile] = {}
    waiting = {path.name: path}
    while waiting:
        name, file = waiting.popitem()
        content = read_text(file)
        found[name] = SourceFile(path=name, content=content)
        for include in _INCLUDE.findall(content):
            headers = (_find_header(folder, base / include, shared) for base in (Path(name).parent, Path()))
            header = next(filter(None, headers), None)
            if header is not None and header[0] not in found:
                waiting[header[0]] = header[1]
    return list(found.values())


def _find_header(folder: Path, path: Path, shared: dict[str, Path]) -> tuple[str, Path] | None:
    """The name of a header in the Solution, and its file."""
    if path.as_posix() in shared:
        return path.as_posix(), shared[path.as_posix()]
    header = (folder / path).resolve()
    if not header.is_file() or not header.is_relative_to(folder):
        return None
    return header.relative_to(folder).as_posix(), header
