"""Make a Solution from a kernel's file and the files that it needs: a temporary one, or one that is registered."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from pathlib import Path

from pydantic import ValidationError

from fib_rmsnorm.errors import InputError, MisfitError, blaming_kernel
from fib_rmsnorm.languages import KERNEL_LANGUAGES, Language
from fib_rmsnorm.registry.files.locking import locked
from fib_rmsnorm.registry.layout import check_name
from fib_rmsnorm.registry.registry import Registry
from fib_rmsnorm.registry.selection import name_others
from fib_rmsnorm.registry.sources.definition_choice import choose_definition
from fib_rmsnorm.registry.sources.manifest import MANIFEST, read_manifest, write_manifest
from fib_rmsnorm.registry.sources.native_kernel import NativeKernel
from fib_rmsnorm.registry.sources.packing import (
    find_included,
    make_solution,
    pack_folder,
    read_current,
    read_sources,
    require_packed,
)
from fib_rmsnorm.registry.sources.python_kernel import PythonKernel
from fib_rmsnorm.registry.store import describe, read_text, write_atomic
from fib_rmsnorm.schema import BuildSpec, Definition, Solution, SupportedBindings, SupportedLanguages

AUTHOR = "draft"
_MOST_NAMED = 6  # Definitions that parameters fit

_SERVES_OTHERS = '# definitions = ["rmsnorm_d*"]  # for sources that serve other Definitions too'


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
        return draft_kernel(registry, path, definition, entry)
    refuse_entry(name, entry)
    current = read_current(registry)
    require_packed(current.faulty, [name], current.by_name)
    solutions = current.by_name
    found = solutions.get(name)
    if definition is not None and (found is None or found.definition != definition):
        served = (each for each in solutions.values() if each.definition == definition)
        named = (each for each in served if each.name.startswith(f"{name}_"))
        found = min(named, key=lambda each: len(each.name), default=None)
    if found is None:
        what = f"{name!r} for {definition}" if definition else repr(name)
        raise InputError(f"no Solution {what} ({name_others(name, solutions)})")
    return registry.definition(found.definition), found


def refuse_entry(name: str, entry: str | None) -> None:
    """Raise InputError if an entry point is chosen for a registered Solution."""
    if entry is not None:
        raise InputError(
            f"--entry {entry}: {name!r} is not a kernel's file or folder; a Solution names its own function"
        )


def draft_kernel(
    registry: Registry, path: Path, definition: str | None = None, entry: str | None = None, flags: Sequence[str] = ()
) -> tuple[Definition, Solution]:
    """The Definition that a kernel is judged by, and the Solution for it, as `choose_definition` chooses it."""
    wanted = choose_definition(registry, path, definition)
    return wanted, draft_solution(registry, path, wanted, entry, flags=flags)


def draft_solution(
    registry: Registry,
    path: Path,
    definition: Definition,
    entry: str | None = None,
    style: bool | None = None,
    flags: Sequence[str] = (),
) -> Solution:
    """Make a Solution from a kernel: a `.py`, `.cu` or `.cpp` file with the files it includes, or a source folder.

    The parameters of the entry point decide the calling style of a file unless `style` does. A solution.toml in its
    folder may include shared files of the registry. `flags` are those of the C++ compiler. Raises KernelError that says
    what is missing in the files, and InputError for what the caller named.
    """
    folder = path if path.is_dir() else path.parent
    languages = _find_languages(path)
    with blaming_kernel():
        manifest = read_manifest(folder / MANIFEST) if (folder / MANIFEST).exists() else None
        shared = find_included(folder, manifest.include, registry.layout.solutions) if manifest else {}
        kernel = _read_kernel(path, languages, entry) if languages else None
        if kernel and manifest and manifest.tune and (folder / manifest.tune.table).is_file():
            shared[manifest.tune.table] = folder / manifest.tune.table
        sources = kernel.read_sources(shared) if kernel else []
    if kernel:
        spec = BuildSpec(
            destination_passing_style=_find_style(registry, kernel, definition, style, entry),
            language=SupportedLanguages(kernel.language.recorded_as or kernel.language.name),
            target_hardware=kernel.target_hardware,
            entry_point=f"{path.name}::{kernel.entry}",
            binding=SupportedBindings(kernel.binding) if kernel.binding else None,
        )
    else:
        if manifest is None:
            raise InputError(f"{path}: this folder has no {MANIFEST}; add one, or name the kernel's file")
        spec = manifest.spec
        if entry:
            spec = spec.model_copy(update={"entry_point": f"{spec.entry_point.partition('::')[0]}::{entry}"})
        with blaming_kernel():
            sources = read_sources(path, shared)
        path = path.resolve()  # of `.`, which has no name
    if flags:
        try:
            spec = BuildSpec.model_validate({**spec.model_dump(), "flags": list(flags)})
        except ValidationError as error:
            raise InputError(f"{path}: {describe(error)}") from None
    with blaming_kernel():
        return make_solution(path, path.name, AUTHOR, definition, spec, sources)


def _find_languages(path: Path) -> list[Language]:
    """The languages that a file's suffix stands for; none for a folder, whose solution.toml names it.

    Raises InputError for what is neither.
    """
    if path.is_dir():
        return []
    if not path.is_file():  # reading a FIFO would block
        raise InputError(f"{path}: not a regular file or a folder" if path.exists() else f"no such file: {path}")
    languages = [language for language in KERNEL_LANGUAGES.values() if path.suffix in language.suffixes]
    if not languages:
        raise InputError(f"{path}: unknown language: name the file .py, .cu or .cpp, or give a source folder")
    return languages


def _read_kernel(path: Path, languages: list[Language], entry: str | None) -> PythonKernel | NativeKernel:
    """Read a file in one of these languages. `entry` defaults to `run`, and in C++ and CUDA to the only export.

    The imports decide the language. Raises InputError for a file that is none of these, or no Python.
    """
    text = read_text(path)
    if languages[0].is_compiled:
        return NativeKernel(path, text, languages[0], entry)
    return PythonKernel(path, text, languages, entry)


def _find_style(
    registry: Registry,
    kernel: PythonKernel | NativeKernel,
    definition: Definition,
    asked: bool | None,
    entry: str | None,
) -> bool:
    """Whether a kernel for a Definition is destination-passing: what is `asked`, else what its parameters say.

    One parameter per input is value-returning, one per input and output is destination-passing. Raises KernelError that
    says what is wrong or missing, with lines to add where some would do, or MisfitError with the Definitions of the
    registry whose parameters it has instead; InputError if it lacks the `entry` that its caller named.
    """
    parameters = kernel.parameters
    try:
        with blaming_kernel() if entry is None or parameters else nullcontext():
            return kernel.find_style(definition, asked)
    except InputError:
        known = registry.definitions() if parameters is not None else {}
        fitting = [name for name, each in known.items() if parameters is not None and parameters.are_of(each)]
        if not fitting or definition.name in fitting:
            raise
        shown = " or ".join([*fitting[:_MOST_NAMED], *(["others"] if len(fitting) > _MOST_NAMED else [])])
        message = f"{kernel.path}: its parameters {parameters} fit {shown}, not {definition.name}"
        raise MisfitError(message, fitting[0]) from None


def register_solution(
    registry: Registry, draft: Solution, definition: Definition, *, name: str, author: str
) -> tuple[Solution, Path]:
    """Write the sources of a draft and a solution.toml into the registry, pack them, and return Solution and folder.

    All of it is written, or nothing. Raises InputError for a name that is unsafe or taken, in which case nothing is
    overwritten, and for sources that cannot be packed.
    """
    packed = registry.layout.solution(author, definition.op_type, definition.name, check_name(name, "solution"))
    folder = packed.parent / name
    with locked(writing=[registry.root]):
        current = read_current(registry)
        taken = [(each.definition, each.author) for each in current.by_name.values() if each.name == name]
        taken += [(each.home, each.author) for each in current.faulty if each.may_make(name)]
        for other, by in taken:
            raise InputError(
                f"a Solution {name!r} exists already ({other}, by {by}); edit its sources in solutions/, which bench"
                " packs again, or choose another name"
            )
        for path in (folder, packed):
            if path.exists():
                raise InputError(f"{path} exists already; choose another name, or remove it first")
        created = [parent for parent in folder.parents if not parent.exists()]
        files = {source.path: source.content for source in draft.sources}
        # The manifest comes last: without it, the folder of a command that was killed is none of sources.
        files[MANIFEST] = write_manifest(name, None, draft.spec, comment=_SERVES_OTHERS)
        try:
            for file, content in files.items():
                write_atomic(folder / file, content, registry.root)
            (solution,) = pack_folder(registry, folder, {definition.name: definition})
            registry.write_solution(solution, definition.op_type)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            for parent in created:
                with suppress(OSError):
                    parent.rmdir()
            raise
    return solution, folder
