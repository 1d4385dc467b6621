"""Make a Solution from a kernel's file and the files that it needs: a temporary one, or one that is registered."""

import shutil
from collections.abc import Iterable, Mapping
from contextlib import nullcontext, suppress
from pathlib import Path
from shlex import quote
from typing import Any

from pydantic import ValidationError

from fib_rmsnorm.errors import InputError, KernelError, blaming_kernel
from fib_rmsnorm.languages import KERNEL_LANGUAGES
from fib_rmsnorm.notices import notice
from fib_rmsnorm.registry.files.locking import locked
from fib_rmsnorm.registry.registry import Registry
from fib_rmsnorm.registry.selection import name_others
from fib_rmsnorm.registry.sources.callees import UNNAMED, KernelCall, plain_name
from fib_rmsnorm.registry.sources.kernel_file import KernelFile, choose_definition
from fib_rmsnorm.registry.sources.manifest import MANIFEST, read_manifest, write_manifest
from fib_rmsnorm.registry.sources.native_kernel import HEADERS, NativeKernel
from fib_rmsnorm.registry.sources.packing import (
    find_included,
    make_solution,
    pack_folder,
    read_current,
    read_sources,
    require_packed,
)
from fib_rmsnorm.registry.sources.parameters import call_in_order, find_usual
from fib_rmsnorm.registry.sources.python_kernel import PythonKernel
from fib_rmsnorm.registry.store import describe, write_atomic
from fib_rmsnorm.schema import BuildSpec, Definition, Solution, SourceFile

AUTHOR = "draft"
_MOST_NAMED = 6  # Definitions that parameters fit, or calls
_MOST_CALLS = 32

_SERVES_OTHERS = '# definitions = ["rmsnorm_d*"]  # for sources that serve other Definitions too'


def find_solution(
    registry: Registry, name: str, definition: str | None = None, call: str | None = None
) -> tuple[Definition, Solution]:
    """Find the Solution that a command's argument names, with its Definition; the argument may be a file or folder.

    A registered Solution is packed from its current sources. `definition` selects another Definition that the same
    sources serve. `call` says what to call in a file. Raises InputError with similar names for an unknown name, for a
    `call` of a registered Solution, and for sources of it that cannot be packed.
    """
    kernel = KernelFile.locate(Path(name), call, definition=definition)
    if definition is not None:
        registry.definition(definition)  # reports an unknown Definition before an unknown Solution
    if kernel.file.exists() and (kernel.file.suffix or "/" in name):
        return draft_kernel(registry, kernel)
    refuse_call(name, call)
    current = read_current(registry, wants=lambda each, _: each == name or each.startswith(f"{name}_"))
    require_packed(current.faulty, [name], current.by_name)
    solutions = current.by_name
    found = solutions.get(name)
    if definition is not None and (found is None or found.definition != definition):
        served = (each for each in solutions.values() if each.definition == definition)
        named = (each for each in served if each.name.startswith(f"{name}_"))
        found = min(named, key=lambda each: len(each.name), default=None)
    if found is None and kernel.file.is_dir():
        return draft_kernel(registry, kernel)
    if found is None:
        what = f"{name!r} for {definition}" if definition else repr(name)
        raise InputError(f"no Solution {what} ({name_others(name, read_current(registry).by_name)})")
    return registry.definition(found.definition), found


def refuse_call(name: str, call: str | None) -> None:
    """Raise InputError if the call of a registered Solution is chosen."""
    if call is not None:
        raise InputError(f"--call {call}: {name!r} is not a kernel's file or folder; a Solution names its own function")


def draft_kernel(registry: Registry, kernel: KernelFile) -> tuple[Definition, Solution]:
    """The Definition that a kernel is judged by, as `choose_definition` chooses it, and the Solution for it."""
    wanted = choose_definition(registry, kernel)
    return wanted, draft_solution(registry, kernel, wanted)


def draft_solution(registry: Registry, kernel: KernelFile, definition: Definition) -> Solution:
    """The Solution that a kernel makes, as `draft_calls` makes it.

    Raises KernelError with the calls to choose from if several may be meant, which only running them can tell.
    """
    drafts = draft_calls(registry, kernel, definition)
    likeliest, *others = drafts
    if others and (others[0].rank == likeliest.rank or likeliest.rank >= UNNAMED):
        raise ask_for_call(f"{kernel.file}: several calls may be meant, and try finds the right one", drafts)
    if drafts[likeliest].spec.language.value == "python" and not kernel.file.is_dir():
        read = _read_kernel(kernel, None)
        if isinstance(read, PythonKernel) and (why := read.explain_language(likeliest)):
            notice(f"{kernel.file}: {why}")
    return drafts[likeliest]


def ask_for_call(why: str, calls: Iterable[KernelCall]) -> KernelError:
    """The error that lists calls to choose from."""
    lines = [f"--call {quote(call.text)}" for call in calls][:_MOST_NAMED]
    return KernelError(f"{why}; choose one of:", "\n".join(lines))


def draft_calls(registry: Registry, kernel: KernelFile, definition: Definition) -> dict[KernelCall, Solution]:
    """Make a Solution for each call that the author of a kernel may have meant, the likeliest first.

    The kernel is a `.py`, `.cu` or `.cpp` file with the files that it includes, or a source folder. There is one
    Solution for a folder, for an entry point that takes the Definition's names in order, and for a `call`: a function's
    name, or an expression over the names and axes of the Definition. A solution.toml in its folder may include shared
    files of the registry. Raises KernelError that says what is wrong in the files, and InputError for what the caller
    named.
    """
    given: dict[str, Any] = {"strided": True} if kernel.strided else {}
    try:
        if kernel.file.is_dir():
            return {KernelCall(""): _draft_folder(registry, kernel, definition, given)}
        return _draft_file(registry, kernel, definition, given)
    except ValidationError as error:
        raise InputError(f"{kernel.file}: {describe(error)}") from None


def _draft_folder(registry: Registry, kernel: KernelFile, definition: Definition, given: dict[str, Any]) -> Solution:
    folder, call = kernel.file, kernel.call
    if not (folder / MANIFEST).exists():
        raise InputError(f"{folder}: this folder has no {MANIFEST}; add one, or name the kernel's file")
    if call and not call.isidentifier():
        raise InputError(f"--call {call!r}: {folder} is a folder; name a function of it, or give the kernel's file")
    with blaming_kernel():
        manifest = read_manifest(folder / MANIFEST)
        sources = read_sources(folder, find_included(folder, manifest.include, registry.layout.solutions))
        file = manifest.spec.entry_point.partition("::")[0]
        read = _read_kernel(KernelFile(folder / file), call) if call and (folder / file).is_file() else None
    if read and call not in read.entries:
        known = ", ".join(name for name in read.entries if name in read.names) or "none"
        raise InputError(f"{folder}: no function {call!r} in {file} (available: {known})")
    given |= {"entry_point": f"{file}::{call}"} if call else {}
    with blaming_kernel():
        spec = BuildSpec.model_validate({**manifest.spec.model_dump(), **given})
        folder = folder.resolve()  # `.` has no name
        return make_solution(folder, folder.name, AUTHOR, definition, spec, sources)


def _draft_file(
    registry: Registry, kernel: KernelFile, definition: Definition, given: Mapping[str, Any]
) -> dict[KernelCall, Solution]:
    expression = kernel.call if kernel.call and not kernel.call.isidentifier() else None
    function = None if expression else kernel.call
    read, sources = _read_sources(registry, kernel, function)
    if expression:
        calls = [KernelCall(expression)]
    else:
        with blaming_kernel():
            usual = find_usual(read.parameters, definition, is_there=read.entry in read.entries)
        if usual is None:
            found = _find_calls(registry, read, definition, function)
        else:  # it returns its outputs, or takes them
            found = [KernelCall(f"{read.entry}({usual})", read.entry if read.entry != "run" else "")]
        calls = [place for each in found for place in read.list_places(each, definition)]
    drafts = {}
    for call in calls:
        entry_point, adapted, language = read.adapt(call, definition, sources)
        if adapted is not sources and given.get("strided") and isinstance(read, NativeKernel):
            read.refuse_strides(call)
        spec = {
            "destination_passing_style": call.writes(definition),
            "language": language.recorded_as or language.name,
            "target_hardware": language.target_hardware,
            "entry_point": entry_point,
            "binding": read.binding,
            "in_place": call.in_place,
            **given,
        }
        called = f"Called as {call.text}" if adapted is not sources or call.in_place else None
        with blaming_kernel():
            built = BuildSpec.model_validate(spec)
            drafts[call] = make_solution(read.path, read.path.name, AUTHOR, definition, built, adapted, called)
    return drafts


def _read_sources(
    registry: Registry, kernel: KernelFile, function: str | None
) -> tuple[PythonKernel | NativeKernel, list[SourceFile]]:
    """Read a file, and what it needs: of its folder, and of what the solution.toml there includes."""
    read, folder = _read_kernel(kernel, function), kernel.file.parent
    with blaming_kernel():
        manifest = read_manifest(folder / MANIFEST) if (folder / MANIFEST).exists() else None
        shared = find_included(folder, manifest.include, registry.layout.solutions) if manifest else {}
        if manifest and manifest.tune and (folder / manifest.tune.table).is_file():
            shared[manifest.tune.table] = folder / manifest.tune.table
        try:
            return read, read.read_sources(shared)
        except ValidationError as error:  # such as an empty header
            raise InputError(f"{kernel.file}: {describe(error)}") from None


def _read_kernel(kernel: KernelFile, entry: str | None, seen: tuple[Path, ...] = ()) -> PythonKernel | NativeKernel:
    """Read a file. `entry` defaults to `run`, and in C++ and CUDA to the only export; imports tell Python's languages.

    Raises InputError for a file that is not there or whose suffix is of no language, KernelError for what it holds.
    """
    path = kernel.file
    if not path.is_file():  # reading a FIFO would block
        raise InputError(f"{path}: not a regular file or a folder" if path.exists() else f"no such file: {path}")
    suffix = HEADERS.get(path.suffix, path.suffix)
    languages = [language for language in KERNEL_LANGUAGES.values() if suffix in language.suffixes]
    if not languages:
        raise InputError(f"{path}: unknown language: name the file .py, .cu or .cpp, or give a source folder")
    with blaming_kernel():
        if not kernel.text:
            raise InputError(f"{path}: is empty")
        if languages[0].is_compiled:
            return NativeKernel(path, kernel.text, languages[0], entry)
        read = PythonKernel(path, kernel.text, languages, entry)
        origin = read.find_origin()
        if origin is None or origin[0] in seen:
            return read
        return _read_kernel(KernelFile(origin[0]), origin[1], (*seen, path))


def _find_calls(
    registry: Registry, kernel: PythonKernel | NativeKernel, definition: Definition, function: str | None
) -> list[KernelCall]:
    """The calls that may be meant, the likeliest first, of what does not take the Definition's names in order.

    Raises KernelError if there is none, with the Definitions of the registry whose parameters it has; InputError if the
    file lacks the caller's `function`.
    """
    parameters = kernel.parameters
    taken = ", ".join(each.name for each in parameters or ())
    what = f"{kernel.entry}({taken}) does not fit" if parameters is not None else "nothing in it fits"
    with blaming_kernel() if function is None or parameters else nullcontext():
        calls = kernel.find_calls(definition)
        if not calls or calls[0].rank >= UNNAMED:
            # To pass None for a part, such as the bias, is as good as another norm of as few inputs.
            fitting = {
                name: named[0]
                for name, each in registry.definitions().items()
                if not (calls and "None" in calls[0].text and len(each.inputs) <= len(definition.inputs))
                and (named := [call for call in kernel.find_calls(each) if call.rank < UNNAMED])
                and (not calls or {each.callee for each in calls} & {each.callee for each in named})
            }
            said = [name for name, call in fitting.items() if name.split("_")[0] in plain_name(call.callee)]
            for name in said[:1] if len(said) == 1 else ():
                kernel.adapt(fitting[name], registry.definition(name), [])  # says so if its dtype is another
            if fitting:
                lines = "\n".join(f"--definition {name}" for name in (said or [*fitting])[:_MOST_NAMED])
                raise KernelError(f"{kernel.path}: {what} {definition.name}, but:", lines)
        if calls:
            return [call for call in calls if call.rank < UNNAMED] or calls[:_MOST_CALLS]
    usual = f"{kernel.entry}({call_in_order(definition, is_destination=False)})"
    if parameters is not None:
        raise KernelError(f"{kernel.path}: {kernel.entry}({taken}) cannot be called as {usual} for {definition.name}")
    other = "give the call with --call" if kernel.names else "start from a kernel of: fib-rmsnorm new triton FILE"
    raise KernelError(f"{kernel.path}: no function {kernel.entry!r}; define {usual}, or {other}")


def register_solution(
    registry: Registry, draft: Solution, definition: Definition, *, name: str, author: str
) -> tuple[Solution, Path]:
    """Write the sources of a draft and a solution.toml into the registry, pack them, and return Solution and folder.

    All of it is written, or nothing. Raises InputError for a name that is unsafe or taken, in which case nothing is
    overwritten, and for sources that cannot be packed.
    """
    packed = registry.layout.solution(author, definition.op_type, definition.name, name)
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
        files[MANIFEST] = write_manifest(name, draft.description, draft.spec, comment=_SERVES_OTHERS)
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
