"""Find what a C++ or CUDA file exports, and the parameters of its functions, without compiling it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from fib_rmsnorm.registry.sources.parameters import Parameters

_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TVM_FFI = re.compile(r"TVM_FFI_DLL_EXPORT_TYPED_FUNC\(\s*(\w+)\s*,\s*([\w:]+)\s*\)")
_PYBIND11 = re.compile(r'\.def\(\s*"(\w+)"\s*,\s*(?:&?\s*([\w:]+)|\[[^\]]*\]\s*\(([^)]*)\))')
_FUNCTION = re.compile(r"^(?P<head>[^\n;{}()#]*?)\b(?P<name>\w+)\s*\((?P<parameters>[^(){};]*)\)\s*\{", re.MULTILINE)
_NOT_FUNCTIONS = {"if", "for", "while", "switch", "catch", "return"}

Binding = Literal["tvm-ffi", "torch"]
"""How a compiled kernel exports its entry point, in the schema's words."""


@dataclass(frozen=True)
class NativeParameter:
    """A parameter of a C++ function."""

    type: str
    name: str


@dataclass(frozen=True)
class NativeFunction:
    """A function that runs on the host."""

    name: str
    parameters: tuple[NativeParameter, ...]

    @property
    def by_name(self) -> Parameters:
        """The parameters' names."""
        names = tuple(parameter.name for parameter in self.parameters)
        return Parameters(names, len(names))

    def takes(self, *types: str) -> bool:
        """Whether the type of a parameter contains one of these texts."""
        return any(text in parameter.type for text in types for parameter in self.parameters)


@dataclass(frozen=True)
class Export:
    """A function under the name by which Python finds it."""

    binding: Binding
    function: str
    parameters: tuple[NativeParameter, ...] | None
    """None if the file does not define the function."""

    @property
    def by_name(self) -> Parameters | None:
        """The parameters' names; None if the file does not define the function."""
        return NativeFunction(self.function, self.parameters).by_name if self.parameters is not None else None


def find_exports(text: str) -> dict[str, Export]:
    """What a file exports through tvm-ffi or pybind11, by its name in Python."""
    text = _without_comments(text)
    functions = {function.name: function.parameters for function in find_functions(text)}
    found = {}
    for name, function, parameters in _PYBIND11.findall(text):
        plain = function.rpartition("::")[2]
        found[name] = Export("torch", plain, functions.get(plain) if plain else _split(parameters))
    for name, function in _TVM_FFI.findall(text):
        plain = function.rpartition("::")[2]
        found[name] = Export("tvm-ffi", plain, functions.get(plain))
    return found


def find_functions(text: str) -> list[NativeFunction]:
    """The functions that a file defines, without those that run on a GPU."""
    found = _FUNCTION.finditer(_without_comments(text))
    return [
        NativeFunction(match["name"], _split(match["parameters"]))
        for match in found
        if match["name"] not in _NOT_FUNCTIONS
        and "__global__" not in match["head"]
        and "__device__" not in match["head"]
    ]


def _without_comments(text: str) -> str:
    return _COMMENT.sub(lambda match: match[0] if match[0][0] == '"' else " ", text)


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
