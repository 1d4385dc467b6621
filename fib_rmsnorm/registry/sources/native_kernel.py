"""A kernel's file in C++ or CUDA, read without compiling it: what it exports, or the lines to add that export it."""

import re
from dataclasses import replace
from pathlib import Path

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.languages import Language
from fib_rmsnorm.registry.files.regular_files import read_text
from fib_rmsnorm.registry.sources.callees import KernelCall, count_users, keep_likely, make_calls, overwrite_inputs
from fib_rmsnorm.registry.sources.native_export import CALLED, call_for_rows, write_export
from fib_rmsnorm.registry.sources.native_functions import NativeFunction, arguments_of, find_functions, read_parameters
from fib_rmsnorm.registry.sources.parameters import SPARE, Parameters
from fib_rmsnorm.schema import Definition, SourceFile

_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
_NOT_CODE = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/|^[ \t]*#(?:\\\n|[^\n])*', re.DOTALL | re.MULTILINE)
"""Strings, comments and preprocessor lines."""
_TVM_FFI = re.compile(r"TVM_FFI_DLL_EXPORT_TYPED_FUNC\(\s*(\w+)\s*,\s*([\w:]+)\s*\)")
_PYBIND11 = re.compile(r'\.def\(\s*"(\w+)"\s*,\s*(?:&?\s*([\w:]+)|\[[^\]]*\]\s*\(([^)]*)\))')
_LIBRARY = re.compile(r"\.(?:def|impl)\([^;]*?&?\s*([\w:]+)\s*\)+\s*;")
HEADERS = {".cuh": ".cu", ".hpp": ".cpp", ".h": ".cpp"}
"""The suffixes of files that may hold a kernel, and of what must include them."""
_ON_GPU, _PRIVATE = {"__global__", "__device__"}, {"static", "inline", "__forceinline__"}
_RETURNED = {"Tensor", "vector", "tuple", "pair"}
_NOT_DEDUCED = {"int", "bool", "size_t", "unsigned"}
"""Words of a template's head that name what no argument of a call tells."""
_MODULE = re.compile(r"PYBIND11_MODULE\s*\([^,]*,\s*(\w+)\s*\)\s*\{")
_NAMESPACE = re.compile(r"\bnamespace\s+([\w:]+)\s*\{")
_TORCH = re.compile(r'#\s*include\s*[<"](torch|ATen|c10)/')
_EXPORT = (
    ": add TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, function), where function runs on the host and takes tvm::ffi::TensorView"
    " (a __global__ function cannot be the entry point)"
)


class NativeKernel:
    """The file of a kernel, and its entry point: `entry`, else `run`, else the only exported function."""

    is_installed = False

    def __init__(self, path: Path, text: str, language: Language, entry: str | None) -> None:
        self.path, self.name, self.text, self.language = path, path.name, text, language
        code = _NOT_CODE.sub(lambda match: match[0] if match[0][0] == '"' else " ", text)
        found = find_functions(code, text)
        self._all = {function.name: function for function in found}
        foreign = ["<vector<", "<std::vector<", *["*>"] * (language.name != "cpp")]  # or it lies in the host's memory
        self._overloads = [each for each in found if each.words.isdisjoint(_ON_GPU) and not each.takes(*foreign)]
        self._functions = {each.name: each for each in self._overloads}
        self.names = [name for name, each in self._functions.items() if each.takes("Tensor", "*", *each.classes)]
        is_library = "TORCH_LIBRARY" in code and not _MODULE.search(code)
        self._is_header = path.suffix in HEADERS
        self.entries = {} if is_library or self._is_header else _find_exports(code, self._functions)
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
        calls: list[KernelCall] = []
        overloads = [each for each in self._overloads if each.name in likely] or [*likely.values()]
        for each in [each for each in overloads if not each.is_foreign(definition)] or overloads:
            arguments, stages = each.find_form()
            form = f"{each.name}({arguments}){each.choose(definition)}"
            for call in make_calls(each.name, form, stages, definition, count_users(each.name, reached)):
                passed = each.find_passed(call.made)
                # One of pointers writes the outputs, or to the memory of an input.
                reads = {value for parameter, value in passed if parameter.element and "const" in parameter.type}
                can_write = call.writes(definition) or next(iter(definition.inputs)) not in reads
                if can_write and not any(map(call.uses, ("None", SPARE, "torch"))):
                    calls.append(replace(call, text=call_for_rows(call.text, passed, definition)))
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
        """The calls that a call may stand for: with outputs in place of inputs where nothing is returned."""
        function = self.entries.get(call.callee) or self._functions.get(call.callee)
        is_void = function and function.name and function.words.isdisjoint(_RETURNED)
        return (overwrite_inputs(call, definition) if is_void else []) or [call]

    def adapt(
        self, call: KernelCall, definition: Definition, sources: list[SourceFile]
    ) -> tuple[str, list[SourceFile], Language]:
        """The entry point that makes a call, the sources, with lines that export it unless some do, and the language.

        Raises InputError for a function that the file lacks, that torch binds, or whose pointers are of another dtype.
        """
        if name := call.find_direct(definition, self.entries):
            return f"{self.name}::{name}", sources, self.language
        count, name = len(arguments_of(call.made)), call.made.partition("(")[0].strip()
        named = [each for each in self._overloads if each.name == name]
        function = min(named, key=lambda one: (len(one.parameters) != count, one.is_foreign(definition)), default=None)
        if function is None:
            known = ", ".join(self.names) or "none"
            raise InputError(f"--call {call.text!r}: {self.path.name} has no such function (available: {known})")
        is_torch = function.takes("torch::Tensor", "at::Tensor") or _TORCH.search(self.text) is not None
        self.binding = "torch" if is_torch else "tvm-ffi"
        opened = [f"using namespace {name};" for name in dict.fromkeys(_NAMESPACE.findall(self.text))]
        written = write_export(self.text, function, call, definition, is_torch=is_torch)
        lines = "\n".join(["\n// Written by fib-rmsnorm.", *opened, *written])
        file, text = self.name, self.text
        if self._is_header:
            file, text = f"{self.path.stem}_call{HEADERS[self.path.suffix]}", f'#include "{self.name}"\n'
        export = f"{text}{lines}TVM_FFI_DLL_EXPORT_TYPED_FUNC({CALLED}, {CALLED}_in_order);\n"
        added = SourceFile(path=file, content=_bind_by_torch(text, lines) if is_torch else export)
        return f"{file}::{CALLED}", [added, *(each for each in sources if each.path != file)], self.language

    def refuse_strides(self, call: KernelCall) -> None:
        """Raise InputError if a call is of a function that takes a pointer."""
        name = call.made.partition("(")[0].strip()
        if self._functions[name].takes("*", *self._functions[name].classes):
            raise InputError(f"strided: {name} takes pointers, which have no strides: give it a TensorView")

    def read_sources(self, shared: dict[str, Path]) -> list[SourceFile]:
        """The file and every header, in its folder or shared, that it includes with quotes."""
        found: dict[str, SourceFile] = {}
        waiting, folder = {self.name: self.path}, self.path.parent.resolve()
        while waiting:
            name, file = waiting.popitem()
            found[name] = SourceFile(path=name, content=self.text if file == self.path else read_text(file))
            for include in _INCLUDE.findall(found[name].content):
                for path in (Path(name).parent / include, Path(include)):
                    header = shared.get(path.as_posix(), (folder / path).resolve())
                    if path.as_posix() in shared or (header.is_file() and header.is_relative_to(folder)):
                        own = path if path.as_posix() in shared else header.relative_to(folder)
                        waiting |= {own.as_posix(): header} if own.as_posix() not in found else {}
                        break
        return list(found.values())


def _find_exports(code: str, functions: dict[str, NativeFunction]) -> dict[str, NativeFunction | None]:
    """The exports through tvm-ffi or pybind11 of code without comments, by their names in Python."""
    found = {}
    for name, function, parameters in _PYBIND11.findall(code):
        found[name] = (
            functions.get(function.rpartition("::")[2]) if function else NativeFunction("", read_parameters(parameters))
        )
    return found | {name: functions.get(function.rpartition("::")[2]) for name, function in _TVM_FFI.findall(code)}


def _bind_by_torch(text: str, lines: str) -> str:
    """Add to the module that a file defines, or define one."""
    if not _MODULE.search(text):
        text += "\n#include <torch/extension.h>\nPYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {}\n"
    return _MODULE.sub(lambda head: f'{lines}{head[0]} {head[1]}.def("{CALLED}", &{CALLED}_in_order);', text, count=1)
