"""A kernel's file in C++ or CUDA, read without compiling it: what it exports, or the lines to add that export it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.languages import Language
from fib_rmsnorm.operators import recognise_source
from fib_rmsnorm.registry.sources.callees import KernelCall, make_calls, overwrite_inputs
from fib_rmsnorm.registry.sources.parameters import SCRATCH, STREAM, Parameter, Parameters
from fib_rmsnorm.registry.store import read_text
from fib_rmsnorm.schema import Definition, SourceFile

_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TVM_FFI = re.compile(r"TVM_FFI_DLL_EXPORT_TYPED_FUNC\(\s*(\w+)\s*,\s*([\w:]+)\s*\)")
_PYBIND11 = re.compile(r'\.def\(\s*"(\w+)"\s*,\s*(?:&?\s*([\w:]+)|\[[^\]]*\]\s*\(([^)]*)\))')
_FUNCTION = re.compile(r"^(?P<head>[^\n;{}()#]*?)\b(?P<name>\w+)\s*\((?P<parameters>[^(){};]*)\)\s*\{", re.MULTILINE)
_NOT_FUNCTIONS = {"if", "for", "while", "switch", "catch", "return"}
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


@dataclass(frozen=True)
class NativeFunction:
    """A function that runs on the host."""

    name: str
    """Empty for a lambda."""
    parameters: Parameters
    is_void: bool = False

    def takes(self, *types: str) -> bool:
        """Whether the type of a parameter contains one of these texts."""
        return any(text in parameter.type for text in types for parameter in self.parameters)


class NativeKernel:
    """The file of a kernel, and its entry point: `entry`, else `run`, else the only exported function."""

    is_installed = False

    def __init__(self, path: Path, text: str, language: Language, entry: str | None) -> None:
        self.path, self.name, self.text, self.language = path, path.name, text, language
        code = _COMMENT.sub(lambda match: match[0] if match[0][0] == '"' else " ", text)
        self._functions = {function.name: function for function in _find_functions(code)}
        self.names = [*self._functions]
        self.entries = _find_exports(code, self._functions)
        """Its exported name, and the function, if the file defines it."""
        only = next(iter(self.entries)) if len(self.entries) == 1 and "run" not in self.entries else "run"
        self.entry = entry or only
        self.binding = None
        if self.entry in self.entries:
            self.binding = "tvm-ffi" if self.entry in dict(_TVM_FFI.findall(code)) else "torch"

    @property
    def parameters(self) -> Parameters | None:
        """The entry point's parameters; None if the file exports none. Raises InputError if it does not define it."""
        if self.entry not in self.entries:
            return None
        function = self.entries[self.entry]
        if function is None:
            raise InputError(f"{self.path}: cannot find the definition of the function that {self.entry!r} exports")
        return function.parameters

    def find_calls(self, definition: Definition) -> list[KernelCall]:
        """The calls that may be meant, the likeliest first: of the entry point, if it is exported.

        Raises InputError if there is no function to call.
        """
        exported, named = self.entries.get(self.entry), self._functions.get(self.entry)
        functions = [exported or named] if exported or named else [] if self.entries else [*self._functions.values()]
        made = [
            make_calls(each.name, f"{each.name}({{}})", [each.parameters], definition)
            for each in functions
            if each and each.takes("Tensor", "*")
        ]
        if not made:
            known = f"; choose one with --call: {', '.join(self.entries)}" if self.entries else _EXPORT
            raise InputError(f"{self.path}: does not export {self.entry!r}{known}")
        return sorted((call for calls in made for call in calls if "None" not in call.text), key=lambda call: call.rank)

    def list_places(self, call: KernelCall, definition: Definition) -> list[KernelCall]:
        """The calls that a call may stand for: of a function that returns nothing, with outputs in place of inputs."""
        function = self.entries.get(call.callee) or self._functions.get(call.callee)
        overwriting = overwrite_inputs(call, definition) if function and function.is_void else []
        return overwriting or [call]

    def adapt(
        self, call: KernelCall, definition: Definition, sources: list[SourceFile]
    ) -> tuple[str, list[SourceFile]]:
        """The entry point that makes a call, and the sources with the lines below the file that export it.

        Raises InputError for a function that the file lacks, that torch binds, or whose pointers are of another dtype.
        """
        function = self._functions.get(call.text.partition("(")[0].strip())
        if function is None:
            known = ", ".join(self.names) or "none"
            raise InputError(f"--call {call.text!r}: {self.path.name} has no such function (available: {known})")
        self.binding = "torch" if function.takes("torch::Tensor", "at::Tensor") else "tvm-ffi"
        if self.binding == "torch" and self.entries:
            order = ", ".join(call.passed(definition))
            raise InputError(f"{self.path}: export a function that takes {order} in this order")
        added = "\n".join(["\n// Written by fib-rmsnorm.", *_write_export(function, call, definition, self.binding)])
        return f"{self.path.name}::{_CALLED}", [
            each.model_copy(update={"content": each.content + added * (each.path == self.path.name)})
            for each in sources
        ]

    def takes_pointers(self, function: str) -> bool:
        """Whether a function of the file takes a pointer."""
        return self._functions[function].takes("*")

    def read_sources(self, shared: dict[str, Path]) -> list[SourceFile]:
        """The file and every header, in its folder or shared, that it includes with quotes."""
        found: dict[str, SourceFile] = {}
        waiting = {self.path.name: self.path}
        while waiting:
            name, file = waiting.popitem()
            content = read_text(file)
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


def _find_functions(code: str) -> list[NativeFunction]:
    """The functions that code without comments defines, without those that run on a GPU."""
    return [
        NativeFunction(match["name"], _split(match["parameters"]), "void" in match["head"].split())
        for match in _FUNCTION.finditer(code)
        if match["name"] not in _NOT_FUNCTIONS and not re.search("__global__|__device__", match["head"])
    ]


def _find_exports(code: str, functions: dict[str, NativeFunction]) -> dict[str, NativeFunction | None]:
    """The exports through tvm-ffi or pybind11 of code without comments, by their names in Python."""
    found = {}
    for name, function, parameters in _PYBIND11.findall(code):
        found[name] = (
            functions.get(function.rpartition("::")[2]) if function else NativeFunction("", _split(parameters))
        )
    return found | {name: functions.get(function.rpartition("::")[2]) for name, function in _TVM_FFI.findall(code)}


def _split(parameters: str) -> Parameters:
    """Split a list of parameters at the commas outside of brackets, and each into type and name."""
    parts, depth = [""], 0
    for character in parameters:
        depth += {"<": 1, ">": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return tuple(_parse(part) for part in parts if part.strip())


def _parse(parameter: str) -> Parameter:
    words = " ".join(parameter.partition("=")[0].split())
    found = re.fullmatch(r"(.*[\s*&])(\w+)", words)
    type_, name = (found[1], found[2]) if found else (words, "")
    return Parameter(name, re.sub(r"\s*([*&])\s*", r"\1", type_.strip()))


def _write_export(function: NativeFunction, call: KernelCall, definition: Definition, binding: str) -> list[str]:
    """Lines that export a call of a function. Raises InputError if its pointers are of another dtype."""
    specs = {**definition.inputs, **definition.outputs}
    tensors = {name: spec.dtype.value for name, spec in specs.items() if spec.shape is not None}
    pointer = next((re.sub(r"const|[*\s]", "", each.type) for each in function.parameters if "*" in each.type), "")
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
    if call.uses(SCRATCH):
        made = SCRATCH_LIKE.format(f"{next(iter(tensors))}_view")
        lines += [f"  const auto made = {made};", f"  auto* {SCRATCH} = static_cast<{pointer}*>(made.data_ptr());"]
    lines += [f"  const auto {axis} = {size};" for axis, size in sizes.items()]
    export = f"TVM_FFI_DLL_EXPORT_TYPED_FUNC({_CALLED}, {_CALLED}_in_order);"
    if binding == "torch":
        export = f'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {{ m.def("{_CALLED}", &{_CALLED}_in_order); }}'
    return [*lines, f"  return {call.made};", "}", export, ""]
