"""A kernel's file in C++ or CUDA, read without compiling it: what it exports, or the lines to add that export it."""

import re
from pathlib import Path

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.languages import Language
from fib_rmsnorm.operators import recognise_source
from fib_rmsnorm.registry.files.regular_files import read_text
from fib_rmsnorm.registry.sources.callees import KernelCall, count_users, keep_likely, make_calls, overwrite_inputs
from fib_rmsnorm.registry.sources.native_functions import NativeFunction, find_functions, split_parameters
from fib_rmsnorm.registry.sources.parameters import SCRATCH, SPARE, STREAM, Parameters
from fib_rmsnorm.schema import Definition, SourceFile

_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
_NOT_CODE = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/|^[ \t]*#(?:\\\n|[^\n])*', re.DOTALL | re.MULTILINE)
"""Strings, comments and preprocessor lines."""
_TVM_FFI = re.compile(r"TVM_FFI_DLL_EXPORT_TYPED_FUNC\(\s*(\w+)\s*,\s*([\w:]+)\s*\)")
_PYBIND11 = re.compile(r'\.def\(\s*"(\w+)"\s*,\s*(?:&?\s*([\w:]+)|\[[^\]]*\]\s*\(([^)]*)\))')
_LIBRARY = re.compile(r"\.(?:def|impl)\([^;]*?&?\s*([\w:]+)\s*\)+\s*;")
_ON_GPU, _PRIVATE = {"__global__", "__device__"}, {"static", "inline", "__forceinline__"}
_NOT_DEDUCED = {"int", "bool", "size_t", "unsigned"}
"""Words of a template's head that name what no argument of a call tells."""
_MODULE = re.compile(r"PYBIND11_MODULE\s*\([^,]*,\s*(\w+)\s*\)\s*\{")
_NAMESPACE = re.compile(r"\bnamespace\s+([\w:]+)\s*\{")
_TORCH = re.compile(r'#\s*include\s*[<"](torch|ATen|c10)/')
_TENSOR_VIEW = "tvm::ffi::TensorView"
SCRATCH_LIKE = "tvm::ffi::Tensor::FromEnvAlloc(TVMFFIEnvTensorAlloc, {0}.shape(), {0}.dtype(), {0}.device())"
"""An expression in C++ that makes a tensor like another."""
_EXPORT = (
    ": add TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, function), where function runs on the host and takes tvm::ffi::TensorView"
    " (a __global__ function cannot be the entry point)"
)
_CALLED = "called"
"""The name that a call is exported by."""
_DTYPES = {"float": "float32", "double": "float64", "half": "float16", "__half": "float16", "__nv_bfloat16": "bfloat16"}


class NativeKernel:
    """The file of a kernel, and its entry point: `entry`, else `run`, else the only exported function."""

    is_installed = False

    def __init__(self, path: Path, text: str, language: Language, entry: str | None) -> None:
        self.path, self.name, self.text, self.language = path, path.name, text, language
        code = _NOT_CODE.sub(lambda match: match[0] if match[0][0] == '"' else " ", text)
        self._all = {function.name: function for function in find_functions(code)}
        self._functions = {name: each for name, each in self._all.items() if each.words.isdisjoint(_ON_GPU)}
        self.names = [name for name, each in self._functions.items() if each.takes("Tensor", "*")]
        is_library = "TORCH_LIBRARY" in code and not _MODULE.search(code)
        self.entries = {} if is_library else _find_exports(code, self._functions)
        """Its exported name, and the function, if the file defines it."""
        self._bound = {name.rpartition("::")[2] for name in _LIBRARY.findall(code)} if is_library else set()
        only = next(iter(self.entries)) if len(self.entries) == 1 and "run" not in self.entries else "run"
        self.is_named, self.entry = entry is not None, entry or only
        self.binding = ("tvm-ffi" if _TVM_FFI.search(code) else "torch") if self.entries else None

    @property
    def parameters(self) -> Parameters | None:
        """The entry point's parameters; None if there is none. Raises InputError if the file does not define it."""
        function = self.entries.get(self.entry) or self._functions.get(self.entry)
        if function is None and self.entry in self.entries:
            raise InputError(f"{self.path}: cannot find the definition of the function that {self.entry!r} exports")
        return function.parameters if function else None

    def find_calls(self, definition: Definition) -> list[KernelCall]:
        """The calls that may be meant, the likeliest first: of the entry point, if it is exported.

        Raises InputError if there is no function to call.
        """
        chosen = self.entries.get(self.entry) or self._functions.get(self.entry)
        likely = {chosen.name: chosen} if chosen else self._find_likely() if not self.is_named else {}
        if not likely:
            known = ", ".join(self.entries or self.names) or "none"
            if self.is_named:
                raise InputError(f"{self.path}: no function {self.entry!r} (available: {known})")
            what = f"; choose one with --call: {known}" if self.entries else _EXPORT
            raise InputError(f"{self.path}: does not export {self.entry!r}{what}")
        reached = {name: self._reach(name) for name in likely if name}
        calls = [
            call
            for name, each in likely.items()
            for call in make_calls(
                name,
                f"{name}({{}}){each.choose(definition)}",
                [each.parameters],
                definition,
                count_users(name, reached),
            )
        ]
        # What takes pointers and returns something has to be given the outputs.
        returning = {each.name for each in self._functions.values() if each.takes("*") and "void" not in each.words}
        calls = [
            each
            for each in calls
            if not any(map(each.uses, ("None", SPARE, "torch")))
            and (each.callee not in returning or each.writes(definition))
        ]
        return sorted(calls, key=lambda call: call.rank)

    def _find_likely(self) -> dict[str, NativeFunction]:
        """The functions that may be the kernel's own: what is exported or bound, or else what launches."""
        exported = {each.name: each for each in self.entries.values() if each and each.name}
        public = {name for name, each in self._functions.items() if "extern" in each.words or name in self._bound}
        launching = {name for name in self._functions if any("<<<" in self._all[n].body for n in self._reach(name))}
        likely = {name: self._functions[name] for name in self.names}
        whole = {name for name, each in likely.items() if "template" not in each.words}
        deduced = {name for name, each in likely.items() if each.words.isdisjoint(_NOT_DEDUCED)}
        open_ = {name for name, each in likely.items() if each.words.isdisjoint(_PRIVATE)}
        likely = {name: likely[name] for name in likely if name in whole | deduced}
        return keep_likely(exported or likely, public, launching, open_, whole)

    def _reach(self, name: str) -> set[str]:
        """The functions that a function uses, directly or indirectly, and itself."""
        found, waiting = {name}, [name]
        while waiting:
            used = {*re.findall(r"\w+", self._all[waiting.pop()].body)} & self._all.keys() - found
            found |= used
            waiting += used
        return found

    def list_places(self, call: KernelCall, definition: Definition) -> list[KernelCall]:
        """The calls that a call may stand for: of a function that returns nothing, with outputs in place of inputs."""
        function = self.entries.get(call.callee) or self._functions.get(call.callee)
        overwriting = overwrite_inputs(call, definition) if function and "void" in function.words else []
        return overwriting or [call]

    def adapt(
        self, call: KernelCall, definition: Definition, sources: list[SourceFile]
    ) -> tuple[str, list[SourceFile], Language]:
        """The entry point that makes a call, the sources, with lines that export it unless some do, and the language.

        Raises InputError for a function that the file lacks, that torch binds, or whose pointers are of another dtype.
        """
        if name := call.find_direct(definition, self.entries):
            return f"{self.name}::{name}", sources, self.language
        function = self._functions.get(call.text.partition("(")[0].strip())
        if function is None:
            known = ", ".join(self.names) or "none"
            raise InputError(f"--call {call.text!r}: {self.path.name} has no such function (available: {known})")
        is_torch = function.takes("torch::Tensor", "at::Tensor") or _TORCH.search(self.text)
        self.binding = "torch" if is_torch else "tvm-ffi"
        opened = [f"using namespace {name};" for name in dict.fromkeys(_NAMESPACE.findall(self.text))]
        export = _write_export(self.text, function, call, definition, self.binding)
        lines = "\n".join(["\n// Written by fib-rmsnorm.", *opened, *export])
        add = _bind_by_torch if is_torch else _bind
        adapted = [
            each.model_copy(update={"content": add(each.content, lines)}) if each.path == self.path.name else each
            for each in sources
        ]
        return f"{self.path.name}::{_CALLED}", adapted, self.language

    def refuse_strides(self, call: KernelCall) -> None:
        """Raise InputError if a call is of a function that takes a pointer."""
        name = call.made.partition("(")[0]
        if self._functions[name.strip()].takes("*"):
            raise InputError(f"strided: {name} takes pointers, which have no strides: give it a TensorView")

    def read_sources(self, shared: dict[str, Path]) -> list[SourceFile]:
        """The file and every header, in its folder or shared, that it includes with quotes."""
        found: dict[str, SourceFile] = {}
        waiting = {self.path.name: self.path}
        while waiting:
            name, file = waiting.popitem()
            content = self.text if file == self.path else read_text(file)
            found[name] = SourceFile(path=name, content=content)
            for include in _INCLUDE.findall(content):
                headers = (self._find_header(base / include, shared) for base in (Path(name).parent, Path()))
                header = next(filter(None, headers), None)
                if header is not None and header[0] not in found:
                    waiting[header[0]] = header[1]
        return list(found.values())

    def _find_header(self, path: Path, shared: dict[str, Path]) -> tuple[str, Path] | None:
        """The name of a header in the Solution, and its file."""
        if path.as_posix() in shared:
            return path.as_posix(), shared[path.as_posix()]
        folder = self.path.parent.resolve()
        header = (folder / path).resolve()
        if not header.is_file() or not header.is_relative_to(folder):
            return None
        return header.relative_to(folder).as_posix(), header


def _find_exports(code: str, functions: dict[str, NativeFunction]) -> dict[str, NativeFunction | None]:
    """The exports through tvm-ffi or pybind11 of code without comments, by their names in Python."""
    found = {}
    for name, function, parameters in _PYBIND11.findall(code):
        found[name] = (
            functions.get(function.rpartition("::")[2])
            if function
            else NativeFunction("", split_parameters(parameters))
        )
    return found | {name: functions.get(function.rpartition("::")[2]) for name, function in _TVM_FFI.findall(code)}


def _write_export(
    text: str, function: NativeFunction, call: KernelCall, definition: Definition, binding: str
) -> list[str]:
    """Lines that export a call of a function of a text. Raises InputError if its pointers are of another dtype."""
    specs = {**definition.inputs, **definition.outputs}
    tensors = {name: spec.dtype.value for name, spec in specs.items() if spec.shape is not None}
    pointers = [each.type.partition("*")[0] for each in function.parameters if "*" in each.type and not each.given]
    pointer = re.sub(r"\bconst\b|\s", "", pointers[0]) if pointers else ""
    if pointer in function.words:  # of a template
        fitting = (name for name, dtype in _DTYPES.items() if name in text and dtype in tensors.values())
        pointer = next(fitting, "float")
    if named := re.search(rf"typedef\s+(\w+)\s+{pointer}\s*;|using\s+{pointer}\s*=\s*(\w+)\s*;", text):
        pointer = named[1] or named[2]
    if pointer in _DTYPES and _DTYPES[pointer] not in tensors.values():
        what = f"{function.name} takes {pointer}*, so it computes in {(dtype := _DTYPES[pointer])}"
        known, paste = recognise_source(definition), ""
        if known and dtype != "float64":
            hidden = definition.const_axes[known.axes["hidden"]]
            paste = f"fib-rmsnorm define {known.operator} --hidden {hidden} --dtype {dtype}"
        raise InputError(f"{what}: judge it by a Definition in {dtype}, not by {definition.name}", paste)
    view, tensor = "_view" * bool(pointer), "torch::Tensor" if binding == "torch" else _TENSOR_VIEW
    passed = call.passed(definition)
    parameters = ", ".join(f"{tensor} {name}{view}" if name in tensors else f"double {name}" for name in passed)
    sizes = call.find_sizes(definition, f"{{}}{view}.size({{}})")
    lines = [
        f"#include <tvm/ffi/{header}>"
        for header in ("container/tensor.h", "extra/c_env_api.h", "function.h")
        if binding != "torch"
    ]
    lines += [f"auto {_CALLED}_in_order({parameters}) {{"]
    lines += [
        f"  auto* {name} = static_cast<{pointer}*>({name}_view.data_ptr());"
        for name in passed
        if name in tensors and pointer
    ]
    if call.uses(STREAM):
        device = f"{next(iter(tensors))}{view}.device()"
        stream = f"TVMFFIEnvGetStream({device}.device_type, {device}.device_id)"
        lines += [f"  auto {STREAM} = static_cast<cudaStream_t>({stream});"]
    name, _, rest = call.made.partition("(")
    passes, _, chosen = rest.rpartition(")")
    arguments = passes.split(", ")
    for at, (each, argument) in enumerate(zip(function.parameters, arguments, strict=False)):
        if argument == SCRATCH:  # each has memory of its own
            lines += [f"  const auto made_{at} = {SCRATCH_LIKE.format(f'{next(iter(tensors))}_view')};"]
            arguments[at] = f"static_cast<{each.type}>(made_{at}.data_ptr())"
    lines += [f"  const auto {axis} = {size};" for axis, size in sizes.items()]
    result = f"{name}({', '.join(arguments)})"
    result = f"std::get<0>({result})" if chosen and "vector" not in function.words else f"{result}{chosen}"
    return [*lines, f"  return {result};", "}", ""]


def _bind(text: str, lines: str) -> str:
    return f"{text}{lines}TVM_FFI_DLL_EXPORT_TYPED_FUNC({_CALLED}, {_CALLED}_in_order);\n"


def _bind_by_torch(text: str, lines: str) -> str:
    """Add to the module that a file defines, or define one."""
    text = (
        text
        if _MODULE.search(text)
        else f"{text}\n#include <torch/extension.h>\nPYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {{}}\n"
    )
    return _MODULE.sub(lambda head: f'{lines}{head[0]} {head[1]}.def("{_CALLED}", &{_CALLED}_in_order);', text, count=1)
