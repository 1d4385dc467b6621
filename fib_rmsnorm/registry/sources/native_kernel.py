"""A kernel's file in C++ or CUDA, read without compiling it: what it exports, or the lines to add that export it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.languages import Language
from fib_rmsnorm.registry.sources.parameters import (
    Parameters,
    describe_unused,
    find_style,
    is_number,
    plan_call,
    require_call,
)
from fib_rmsnorm.registry.store import read_text
from fib_rmsnorm.schema import Definition, SourceFile

_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TVM_FFI = re.compile(r"TVM_FFI_DLL_EXPORT_TYPED_FUNC\(\s*(\w+)\s*,\s*([\w:]+)\s*\)")
_PYBIND11 = re.compile(r'\.def\(\s*"(\w+)"\s*,\s*(?:&?\s*([\w:]+)|\[[^\]]*\]\s*\(([^)]*)\))')
_FUNCTION = re.compile(r"^(?P<head>[^\n;{}()#]*?)\b(?P<name>\w+)\s*\((?P<parameters>[^(){};]*)\)\s*\{", re.MULTILINE)
_NOT_FUNCTIONS = {"if", "for", "while", "switch", "catch", "return"}
_TENSOR_VIEW = "tvm::ffi::TensorView"


class NativeParameter(NamedTuple):
    """A parameter of a C++ function."""

    type: str
    name: str


@dataclass(frozen=True)
class NativeFunction:
    """A function that runs on the host."""

    name: str
    """Empty for a lambda."""
    parameters: tuple[NativeParameter, ...]

    @property
    def by_name(self) -> Parameters:
        """The parameters' names."""
        names = tuple(parameter.name for parameter in self.parameters)
        return Parameters(names, len(names))

    def takes(self, *types: str) -> bool:
        """Whether the type of a parameter contains one of these texts."""
        return any(text in parameter.type for text in types for parameter in self.parameters)

    @property
    def tensor(self) -> str:
        """The type of its tensors."""
        return "torch::Tensor" if self.takes("torch::Tensor", "at::Tensor") else _TENSOR_VIEW


@dataclass(frozen=True)
class Export:
    """A function under the name by which Python finds it."""

    binding: Literal["tvm-ffi", "torch"]
    name: str
    """The function's name in C++."""
    function: NativeFunction | None
    """None if the file does not define the function."""


class NativeKernel:
    """The file of a kernel, and its entry point: `entry`, else `run`, else the only exported function."""

    def __init__(self, path: Path, text: str, language: Language, entry: str | None) -> None:
        self.path, self.text, self.language = path, text, language
        self.target_hardware = list(language.target_hardware)
        code = _COMMENT.sub(lambda match: match[0] if match[0][0] == '"' else " ", text)
        self._functions = _find_functions(code)
        self._exports = _find_exports(code, {function.name: function for function in self._functions})
        only = next(iter(self._exports)) if len(self._exports) == 1 and "run" not in self._exports else "run"
        self.entry = entry or only
        self._export = self._exports.get(self.entry)

    @property
    def binding(self) -> Literal["tvm-ffi", "torch"] | None:
        """How the entry point is exported, in the schema's words."""
        return self._export.binding if self._export else None

    @property
    def parameters(self) -> Parameters | None:
        """Those of the entry point; None where the source does not show them."""
        return self._export.function.by_name if self._export and self._export.function else None

    def find_style(self, definition: Definition, asked: bool | None) -> bool:
        """Whether the entry point is destination-passing; `asked` decides it if it is not None.

        Raises InputError, with lines to add if some would do, for an entry point that is missing or that cannot be
        called with the Definition's names in order.
        """
        if self._export is None:
            raise self._missing(definition)
        if asked is not None:
            return asked
        function, called = self._export.function, self._export.name or self.entry
        if function is None:
            raise InputError(f"{self.path}: cannot find the definition of {called}, which {self.entry!r} exports")
        style = find_style(function.by_name, definition)
        if style is not None:
            return style
        call = require_call(str(self.path), called, function.by_name, definition)
        names = ", ".join(call.names)
        what = f"{self.path}: {called}{function.by_name} cannot be called as {self.entry}({names})"
        if not function.name:
            raise InputError(f"{what}: give the parameters of the lambda this order")
        note = describe_unused(call.unused, function.name)
        paste = _export(function, self.entry, definition)
        raise InputError(f"{what}; put these lines in place of its export{note}:", paste)

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

    def _missing(self, definition: Definition) -> InputError:
        what = f"{self.path}: does not export {self.entry!r}"
        if self._exports:
            return InputError(f"{what}; choose one with --entry: {', '.join(self._exports)}")
        for function in reversed(self._functions):  # the one that uses the others is usually the last
            if paste := _export(function, self.entry, definition):
                return InputError(f"{what}; add these lines at the end, which call {function.name}:", paste)
        return InputError(
            f"{what}: add TVM_FFI_DLL_EXPORT_TYPED_FUNC({self.entry}, function), where function runs on the host and"
            f" takes {_TENSOR_VIEW} (a __global__ function cannot be the entry point)"
        )


def _find_functions(code: str) -> list[NativeFunction]:
    """The functions that code without comments defines, without those that run on a GPU."""
    return [
        NativeFunction(match["name"], _split(match["parameters"]))
        for match in _FUNCTION.finditer(code)
        if match["name"] not in _NOT_FUNCTIONS and not re.search("__global__|__device__", match["head"])
    ]


def _find_exports(code: str, functions: dict[str, NativeFunction]) -> dict[str, Export]:
    """What code without comments exports through tvm-ffi or pybind11, by its name in Python."""
    found = {}
    for name, function, parameters in _PYBIND11.findall(code):
        plain = function.rpartition("::")[2]
        bound = functions.get(plain) if plain else NativeFunction("", _split(parameters))
        found[name] = Export("torch", plain, bound)
    for name, function in _TVM_FFI.findall(code):
        plain = function.rpartition("::")[2]
        found[name] = Export("tvm-ffi", plain, functions.get(plain))
    return found


def _split(parameters: str) -> tuple[NativeParameter, ...]:
    """Split a list of parameters at the commas outside of brackets, and each into type and name."""
    parts, depth = [""], 0
    for character in parameters:
        depth += {"<": 1, ">": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return tuple(_parse(part) for part in parts if part.strip())


def _parse(parameter: str) -> NativeParameter:
    words = " ".join(parameter.partition("=")[0].split())
    found = re.fullmatch(r"(.*[\s*&])(\w+)", words)
    type_, name = (found[1], found[2]) if found else (words, "")
    return NativeParameter(re.sub(r"\s*([*&])\s*", r"\1", type_.strip()), name)


def _export(function: NativeFunction, entry: str, definition: Definition) -> str:
    """Lines that export a function; empty if its parameters cannot be matched."""
    if function.tensor == _TENSOR_VIEW and not function.takes("TensorView"):
        return ""
    wrapper = ""
    if find_style(function.by_name, definition) is None:  # it needs another that takes the names in order
        call = plan_call(function.by_name, definition)
        if call is None:
            return ""
        name, arguments = f"{entry}_in_order", ", ".join(call.arguments.values())
        result, returns = ("void", "") if call.is_destination_passing else (function.tensor, "return ")
        types = {each: "double" if is_number(definition, each) else function.tensor for each in call.names}
        parameters = ", ".join(f"{type_} {each}" for each, type_ in types.items())
        wrapper = f"{result} {name}({parameters}) {{ {returns}{function.name}({arguments}); }}\n"
        function = replace(function, name=name)
    if function.tensor == _TENSOR_VIEW:
        return f"{wrapper}TVM_FFI_DLL_EXPORT_TYPED_FUNC({entry}, {function.name});"
    return f'{wrapper}PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {{ module.def("{entry}", &{function.name}); }}'
