"""Make a temporary Solution from a kernel's file, its source and the files that it needs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

from pydantic import ValidationError

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.registry import Registry
from fib_rmsnorm.registry.sources.definition_choice import choose_definition
from fib_rmsnorm.registry.sources.kernel_source import KernelSource, read_fitting
from fib_rmsnorm.registry.sources.manifest import MANIFEST, read_manifest
from fib_rmsnorm.registry.sources.packing import read_current
from fib_rmsnorm.registry.sources.python_kernel import imported_modules, parse_python
from fib_rmsnorm.registry.sources.source_folder import find_included, read_sources
from fib_rmsnorm.registry.store import describe, read_text
from fib_rmsnorm.schema import (
    BuildSpec,
    Definition,
    Solution,
    SourceFile,
    SupportedBindings,
    SupportedLanguages,
    check_in_place,
)

AUTHOR = "draft"

_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def find_solution(
    registry: Registry, name: str, definition: str | None = None, entry: str | None = None
) -> tuple[Definition, Solution]:
    """Find the Solution that a command's argument names, with its Definition; the argument may be a file or folder.

    A registered Solution is packed from its current sources. `definition` selects another Definition that the same
    sources serve. `entry` names another function of a file or folder than the default. Raises InputError with similar
    names for an unknown name, for an `entry` of a registered Solution, and for sources of it that cannot be packed.
    """
    path = Path(name)
    if definition is not None:
        registry.definition(definition)  # reports an unknown Definition before an unknown Solution
    if path.exists() and (path.suffix or "/" in name):
        wanted = choose_definition(registry, path, definition)
        return wanted, draft_solution(registry, path, wanted, entry)
    refuse_entry(name, entry)
    current = read_current(registry)
    current.require((name,))
    solutions = current.by_name
    found = solutions.get(name)
    if definition is not None and (found is None or found.definition != definition):
        served = (each for each in solutions.values() if each.definition == definition)
        named = (each for each in served if each.name.startswith(f"{name}_"))
        found = min(named, key=lambda each: len(each.name), default=None)
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


def draft_solution(
    registry: Registry,
    path: Path,
    definition: Definition,
    entry: str | None = None,
    style: bool | None = None,
    flags: Sequence[str] = (),
) -> Solution:
    """Make a Solution from a kernel: a `.py`, `.cu` or `.cpp` file with the files it includes, or a source folder.

    `read_fitting` decides the language and the calling style of a file. A solution.toml in its folder may include
    shared files of the registry. `flags` are those of the C++ compiler. Raises InputError that says what is missing.
    """
    if path.is_dir():
        return _draft_folder(registry, path, definition, entry, flags)
    source = read_fitting(registry, path, definition, entry, style)
    shared = _find_shared(registry, path.parent)
    files = _with_includes(path, shared) if source.language.is_compiled else _with_siblings(path, source.text, shared)
    return _solution(path, definition, _with_flags(path, _spec(source), flags), files)


def _solution(path: Path, definition: Definition, spec: BuildSpec, sources: list[SourceFile]) -> Solution:
    try:
        check_in_place(spec.in_place, definition)
        return Solution(name=path.name, definition=definition.name, author=AUTHOR, spec=spec, sources=sources)
    except ValidationError as error:
        raise InputError(f"{path}: {describe(error)}") from None
    except ValueError as error:
        raise InputError(f"{path}: {error}") from None


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


def _draft_folder(
    registry: Registry, path: Path, definition: Definition, entry: str | None, flags: Sequence[str]
) -> Solution:
    if not (path / MANIFEST).exists():
        raise InputError(f"{path}: this folder has no {MANIFEST}; add one, or name the kernel's file")
    manifest = read_manifest(path / MANIFEST)
    spec = manifest.spec
    if entry:
        spec = spec.model_copy(update={"entry_point": f"{spec.entry_point.partition('::')[0]}::{entry}"})
    sources = read_sources(path, manifest.include, registry.layout.solutions)
    return _solution(path.resolve(), definition, _with_flags(path, spec, flags), sources)


def _spec(source: KernelSource) -> BuildSpec:
    return BuildSpec(
        language=SupportedLanguages(source.language.name),
        target_hardware=list(source.target_hardware),
        entry_point=f"{source.path.name}::{source.entry}",
        destination_passing_style=source.destination_passing_style,
        binding=SupportedBindings(source.binding) if source.binding else None,
    )


def _with_flags(path: Path, spec: BuildSpec, flags: Sequence[str]) -> BuildSpec:
    """The spec with these flags of the C++ compiler instead of its own, if there are any."""
    if not flags:
        return spec
    try:
        return BuildSpec.model_validate({**spec.model_dump(), "flags": list(flags)})
    except ValidationError as error:
        raise InputError(f"{path}: {describe(error)}") from None


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
        for name in imported_modules(parse_python(file, content)):
            module = f"{name.split('.')[0]}.py"
            sibling = shared.get(module, path.parent / module)
            if sibling.is_file():
                waiting.append((sibling, read_text(sibling)))
    return list(found.values())


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
