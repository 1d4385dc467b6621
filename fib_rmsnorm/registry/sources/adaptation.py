"""Serve a Definition by kernels that were written for others: those of the same operator, under other names.

An adapted Solution is a folder with a solution.toml, which includes the kernel's own sources, and a file that calls it:
in its order, with its constants. That file holds the entry point.
"""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.languages import LANGUAGES
from fib_rmsnorm.operators import Recognition
from fib_rmsnorm.registry.files.locking import locked
from fib_rmsnorm.registry.files.regular_files import find_files, read_text
from fib_rmsnorm.registry.registry import Registry
from fib_rmsnorm.registry.sources.manifest import MANIFEST, Manifest, read_manifest, write_manifest
from fib_rmsnorm.registry.sources.native_export import SCRATCH_LIKE
from fib_rmsnorm.registry.sources.packing import find_included, pack_folder, read_sources, served_suffix
from fib_rmsnorm.registry.sources.starting_kernel import identifier
from fib_rmsnorm.registry.store import write_atomic
from fib_rmsnorm.schema import BuildSpec, Definition, Solution, SupportedBindings, digest

AS_THEY_ARE = "serve it as they are"
_MARK = "# Written by fib-rmsnorm adapt"
_NATIVE = """\
// {about}
{includes}

extern "C" int __tvm_ffi_{entry}(void* self, const TVMFFIAny* args, int32_t count, TVMFFIAny* result);

namespace {{

using tvm::ffi::TensorView;

void Adapted({parameters}) {{
  tvm::ffi::Function::InvokeExternC(nullptr, __tvm_ffi_{entry}, {arguments});
}}

}}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run_adapted, Adapted);
"""


@dataclass(frozen=True)
class KernelFolder:
    """A folder of sources, in the registry or in the one that ships with this package."""

    registry: Registry
    folder: Path
    manifest: Manifest
    home: Definition | None
    """The Definition in whose folder it lies; None if its registry lacks it."""

    def serves(self, definition: str) -> bool:
        """Whether its manifest names a Definition."""
        return self.manifest.serves(definition, self.folder.parent.name)


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
        definitions = registry.definitions()
        for path in find_files(registry.layout.solutions, MANIFEST):
            folder = path.parent
            if not _is_adapted(folder):
                kernel = KernelFolder(registry, folder, read_manifest(path), definitions.get(folder.parent.name))
                found.setdefault(folder.relative_to(registry.layout.solutions), kernel)
    return [found[place] for place in sorted(found)]


def adapt(
    registry: Registry, kernels: Collection[KernelFolder], definition: Definition, recognition: Recognition
) -> list[Adapted] | str:
    """Write a Solution of `definition` from each kernel that serves the operator's own Definition of its sizes.

    Kernels of the definition itself are left out. Returns why there is none if no kernel is left. Raises InputError for
    a folder or file that is in the way.
    """
    try:
        own = recognition.define_own(definition)
    except InputError as error:
        return f"kernels of {recognition.operator} are for other sizes or dtypes: {error}"
    found = []
    for kernel in kernels:
        if kernel.serves(own.name) and not kernel.serves(definition.name):
            try:
                files = _make_files(kernel, own, definition, recognition)
            except InputError as error:
                found.append(Adapted(kernel.manifest.name, None, str(error)))
                continue
            found.append(Adapted(kernel.manifest.name, _write(registry, kernel, definition, files)))
    if not found and any(kernel.serves(definition.name) for kernel in kernels):
        return f"the kernels of {recognition.operator} {AS_THEY_ARE}"
    return found or f"no kernel serves {own.name}, which is what it computes"


def _make_files(
    kernel: KernelFolder, own: Definition, definition: Definition, recognition: Recognition
) -> dict[str, str]:
    """The manifest and the adapter of a Solution, by name. Raises InputError if the kernel cannot be called."""
    manifest = kernel.manifest
    made_for = kernel.home if kernel.home and kernel.serves(kernel.home.name) else own
    (made_of,) = pack_folder(kernel.registry, kernel.folder, {made_for.name: made_for})
    constants = "".join(f", {name} = {value!r}" for name, value in recognition.constants.items())
    sources = f"{manifest.name} (SHA-256 {digest(made_of)[:12]}){constants}"
    spec, file, text = _write_adapter(own, definition, recognition, manifest.spec, f"{definition.name} by {sources}.")
    said = f"{sources}. {manifest.description or ''}".strip()
    written = write_manifest(_name(kernel, definition), said, spec, include=_list_sources(kernel))
    mark = f"{_MARK}, which writes it again when the sources of {manifest.name} have changed.\n"
    return {MANIFEST: mark + written, file: text}


def _name(kernel: KernelFolder, definition: Definition) -> str:
    """The name of the adapted Solution."""
    return kernel.manifest.name + served_suffix(kernel.folder.parent.name, definition.name)


def _list_sources(kernel: KernelFolder) -> list[str]:
    """The kernel's files and what they include, as paths in solutions/. Raises InputError for files in subfolders."""
    included = find_included(kernel.folder, kernel.manifest.include, kernel.registry.layout.solutions)
    place = kernel.folder.relative_to(kernel.registry.layout.solutions)
    mine = []
    for source in read_sources(kernel.folder, included):
        if "/" in source.path:
            raise InputError("its sources lie in subfolders")
        if source.path not in included:
            mine.append((place / source.path).as_posix())
    return [*mine, *kernel.manifest.include]


def _write(registry: Registry, kernel: KernelFolder, definition: Definition, files: dict[str, str]) -> Solution:
    layout = registry.layout
    author = kernel.folder.relative_to(kernel.registry.layout.solutions).parts[0]
    folder = layout.solution(author, definition.op_type, definition.name, _name(kernel, definition)).with_suffix("")
    with locked(writing=[registry.root]):
        if folder.exists() and not _is_adapted(folder):
            raise InputError(f"{folder} exists, and fib-rmsnorm adapt did not write it; remove it first")
        if kernel.registry.root != registry.root:
            for path in _list_sources(kernel):
                text, target = read_text(kernel.registry.layout.solutions / path), layout.solutions / path
                if not target.exists():
                    write_atomic(target, text, registry.root)
                elif read_text(target) != text:
                    differs = f"{target} differs from the file of this version; remove it, and run"
                    raise InputError(f"{differs} fib-rmsnorm adapt again")
        for file, text in files.items():
            write_atomic(folder / file, text, registry.root)
        (solution,) = pack_folder(registry, folder, {definition.name: definition})
        registry.write_solution(solution, definition.op_type)
    return solution


def _is_adapted(folder: Path) -> bool:
    return (folder / MANIFEST).is_file() and read_text(folder / MANIFEST).startswith(_MARK)


def _write_adapter(
    own: Definition, definition: Definition, recognition: Recognition, spec: BuildSpec, about: str
) -> tuple[BuildSpec, str, str]:
    """Have a kernel for `own`, whose tensors are called as their parts, serve another Definition.

    Returns the spec of the adapted Solution, and the name and text of the file to add. Raises InputError that says why
    the kernel cannot be called.
    """
    if spec.in_place:
        raise InputError("it writes to its inputs")
    is_compiled, is_destination = LANGUAGES[spec.language.value].is_compiled, spec.destination_passing_style
    scratch = SCRATCH_LIKE if is_compiled else "torch.empty_like({0})"
    parts = [*own.inputs, *(own.outputs if is_destination else ())]
    arguments = ", ".join(_find_argument(part, own, definition, recognition, scratch) for part in parts)
    passed = {**definition.inputs, **(definition.outputs if is_destination else {})}
    file, _, entry = spec.entry_point.partition("::")
    if is_compiled:
        if spec.binding is SupportedBindings.TORCH or not is_destination:
            raise InputError("only compiled kernels that tvm-ffi binds and that write to their outputs can be adapted")
        kinds = {identifier(name): "double" if each.shape is None else "TensorView" for name, each in passed.items()}
        headers = ["container/tensor.h", *(["extra/c_env_api.h"] if "FromEnvAlloc" in arguments else []), "function.h"]
        includes = "\n".join(f"#include <tvm/ffi/{header}>" for header in headers)
        parameters = ", ".join(f"{kind} {name}" for name, kind in kinds.items())
        text = _NATIVE.format(about=about, includes=includes, entry=entry, parameters=parameters, arguments=arguments)
        return spec.model_copy(update={"entry_point": "adapter.cpp::run_adapted"}), "adapter.cpp", text
    part_of = {name: part for part, name in recognition.tensors.items()}
    returned = [list(own.outputs).index(part_of[name]) for name in definition.outputs]
    if is_destination:
        body = f"_kernel({arguments})"
    elif returned == list(range(len(own.outputs))):
        body = f"return _kernel({arguments})"
    else:
        body = f"outputs = _kernel({arguments})\n    return {', '.join(f'outputs[{at}]' for at in returned)}"
    imports = ["import torch", ""] if "torch." in arguments else []
    imports += [f"from .{file.removesuffix('.py').replace('/', '.')} import {entry} as _kernel"]
    head = f"def run({', '.join(map(identifier, passed))}):"
    text = "\n".join([f'"""{about}"""', "", *imports, "", "", head, f"    {body}", ""])
    return spec.model_copy(update={"entry_point": "adapter.py::run"}), "adapter.py", text


def _find_argument(part: str, own: Definition, definition: Definition, recognition: Recognition, scratch: str) -> str:
    """The caller's argument that plays a part, a constant, or memory for an output that the Definition does not have.

    `scratch` makes memory like that of a tensor, in the adapter's language.
    """
    name = recognition.tensors.get(part)
    if name is None:
        if part in recognition.constants:
            return repr(recognition.constants[part])
        wanted = own.outputs.get(part)
        for like, spec in own.inputs.items():
            if wanted is not None and (spec.shape, spec.dtype) == (wanted.shape, wanted.dtype):
                return scratch.format(identifier(recognition.tensors[like]))
        raise InputError(f"it needs {part}")
    if part in own.inputs:
        is_number = own.inputs[part].shape is None
        if is_number != ({**definition.inputs, **definition.outputs}[name].shape is None):
            raise InputError(f"it takes {part} as a {'number' if is_number else 'tensor'}")
    return identifier(name)
