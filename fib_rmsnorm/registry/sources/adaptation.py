"""Serve a Definition by kernels that were written for others: those of the same operator, under other names.

An adapted Solution is a folder with a solution.toml, which includes the kernel's own sources, and a file that calls it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cached_property
from pathlib import Path

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.languages import LANGUAGES
from fib_rmsnorm.operators import Recognition
from fib_rmsnorm.registry.files.locking import locked
from fib_rmsnorm.registry.files.regular_files import find_files
from fib_rmsnorm.registry.registry import Registry
from fib_rmsnorm.registry.sources.adapted_call import describe_constants, plan_adapted_call, write_adapter
from fib_rmsnorm.registry.sources.manifest import MANIFEST, Manifest, read_manifest
from fib_rmsnorm.registry.sources.packing import pack_folder, served_suffix
from fib_rmsnorm.registry.sources.source_folder import find_included, read_sources
from fib_rmsnorm.registry.store import read_text, write_atomic
from fib_rmsnorm.schema import Definition, Solution, digest

_MARK = "# Written by fib-rmsnorm adapt"


@dataclass(frozen=True)
class KernelFolder:
    """A folder of sources, in the registry or in the one that ships with this package."""

    registry: Registry
    folder: Path
    manifest: Manifest

    @property
    def home(self) -> str:
        """The Definition in whose folder it lies."""
        return self.folder.parent.name

    @cached_property
    def packed(self) -> Solution | None:
        """What is packed of it for the Definition of its folder; None if that is not there."""
        home = {name: each for name, each in self.registry.definitions().items() if name == self.home}
        return next(iter(pack_folder(self.registry, self.folder, home)), None) if self.serves_any(home) else None

    def serves_any(self, definitions: Collection[str]) -> bool:
        """Whether its manifest names one of the Definitions."""
        return any(map(self.serves, definitions))

    def serves(self, definition: str) -> bool:
        """Whether its manifest names a Definition."""
        return any(fnmatch(definition, pattern) for pattern in self.manifest.definitions or [self.home])


@dataclass(frozen=True)
class Adapted:
    """A Solution that was written, or why a kernel of the operator has none."""

    kernel: str
    solution: Solution | None
    reason: str = ""


def find_kernels(registries: Collection[Registry]) -> list[KernelFolder]:
    """The folders of sources, without adapted ones; of two at one path, that of the first registry."""
    found: dict[Path, KernelFolder] = {}
    for registry in registries:
        for path in find_files(registry.layout.solutions, MANIFEST):
            if not read_text(path).startswith(_MARK):
                place = path.parent.relative_to(registry.layout.solutions)
                found.setdefault(place, KernelFolder(registry, path.parent, read_manifest(path)))
    return [found[place] for place in sorted(found)]


def adapt(
    registry: Registry, kernels: Collection[KernelFolder], definition: Definition, recognition: Recognition
) -> Iterator[Adapted]:
    """Write a Solution of `definition` from each kernel that serves the operator's own Definition of its sizes.

    Kernels of the definition itself are left out. Raises InputError for a folder or file that is in the way.
    """
    try:
        own = recognition.define_own(definition)
    except InputError:
        return  # `describe_none` says why
    for kernel in kernels:
        if kernel.serves(own.name) and not kernel.serves(definition.name):
            try:
                files = _make_files(kernel, own, definition, recognition)
            except InputError as error:
                yield Adapted(kernel.manifest.name, None, str(error))
                continue
            yield Adapted(kernel.manifest.name, _write(registry, kernel, definition, files))


def describe_none(
    registry: Registry, kernels: Collection[KernelFolder], definition: Definition, recognition: Recognition
) -> str:
    """Why `adapt` finds none of the kernels for a Definition."""
    try:
        own = recognition.define_own(definition)
    except InputError as error:
        return f"kernels of {recognition.operator} are for other sizes or dtypes: {error}"
    serving = [kernel for kernel in kernels if kernel.serves(definition.name)]
    if any(kernel.registry.root == registry.root for kernel in serving):
        return f"each kernel of {recognition.operator} serves it already"
    if serving:
        return "the kernels that ship serve it as they are; to have them in a new registry, run: fib-rmsnorm init DIR"
    if own.name == definition.name:
        return "no kernel serves it"
    return f"no kernel serves {own.name}, which is what it computes"


def _make_files(
    kernel: KernelFolder, own: Definition, definition: Definition, recognition: Recognition
) -> dict[str, str]:
    """The manifest and the adapter of a Solution, by name. Raises InputError if the kernel cannot be called."""
    manifest = kernel.manifest
    made_of = kernel.packed or pack_folder(kernel.registry, kernel.folder, {own.name: own})[0]
    sources = f"{manifest.name} (SHA-256 {digest(made_of)[:12]}){describe_constants(recognition.constants)}"
    call = plan_adapted_call(own, definition, recognition, manifest.spec)
    is_native = LANGUAGES[manifest.spec.language.value].is_compiled
    about = f"{definition.name} by {sources}."
    spec, file, text = write_adapter(call, manifest.spec, about, is_native=is_native)
    lines = [
        f"{_MARK}, which writes it again when the sources of {manifest.name} have changed.",
        f"name = {json.dumps(manifest.name + served_suffix(kernel.home, definition.name))}",
        f"description = {json.dumps(f'{sources}. {manifest.description or str()}'.strip(), ensure_ascii=False)}",
        "include = [",
        *(f"  {json.dumps(path)}," for path in _list_sources(kernel)),
        "]",
        "",
        "[spec]",
        *(f"{key} = {json.dumps(value)}" for key, value in spec.model_dump(mode="json").items() if value is not None),
        "",
    ]
    return {MANIFEST: "\n".join(lines), file: text}


def _list_sources(kernel: KernelFolder) -> list[str]:
    """The kernel's files and what they include, as paths in solutions/. Raises InputError for files in subfolders."""
    included = find_included(kernel.folder, kernel.manifest.include, kernel.registry.layout.solutions)
    place = kernel.folder.relative_to(kernel.registry.layout.solutions)
    mine = []
    for source in read_sources(kernel.folder, kernel.manifest.include, kernel.registry.layout.solutions):
        if "/" in source.path:
            raise InputError("its sources lie in subfolders")
        if source.path not in included:
            mine.append((place / source.path).as_posix())
    return [*mine, *kernel.manifest.include]


def _write(registry: Registry, kernel: KernelFolder, definition: Definition, files: dict[str, str]) -> Solution:
    layout = registry.layout
    author = kernel.folder.relative_to(kernel.registry.layout.solutions).parts[0]
    name = kernel.manifest.name + served_suffix(kernel.home, definition.name)
    packed = layout.solution(author, definition.op_type, definition.name, name)
    folder = packed.parent / name
    with locked(writing=[registry.root]):
        if folder.exists() and not _is_adapted(folder):
            raise InputError(f"{folder} exists, and fib-rmsnorm adapt did not write it; remove it first")
        if kernel.registry.root != registry.root:
            for path in _list_sources(kernel):
                _copy(kernel.registry.layout.solutions / path, layout.solutions / path, registry)
        for file, text in files.items():
            write_atomic(folder / file, text, registry.root)
        (solution,) = pack_folder(registry, folder, {definition.name: definition})
        registry.write_solution(solution, definition.op_type)
    return solution


def _is_adapted(folder: Path) -> bool:
    return (folder / MANIFEST).is_file() and read_text(folder / MANIFEST).startswith(_MARK)


def _copy(source: Path, target: Path, registry: Registry) -> None:
    """Copy a shipped file, unless it is there. Raises InputError if another file has its place."""
    text = read_text(source)
    if not target.exists():
        write_atomic(target, text, registry.root)
    elif read_text(target) != text:
        raise InputError(f"{target} differs from the file of this version; remove it, and run fib-rmsnorm adapt again")
