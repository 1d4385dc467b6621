"""The functions that code in C++ and CUDA defines, read without compiling it."""

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from itertools import accumulate

from fib_rmsnorm.registry.sources.parameters import Parameter, Parameters
from fib_rmsnorm.schema import Definition

_FUNCTION = re.compile(r"\b(?P<name>\w+)\s*\((?P<parameters>[^(){};]*)\)\s*\{")
_CLASS = re.compile(r"\b(?:struct|class|union)\b(?:\s+(\w+))?[^;{}()=]*\{")
_NOT_FUNCTIONS = {"if", "for", "while", "switch", "catch", "return"}


@dataclass(frozen=True)
class NativeFunction:
    """A function that runs on the host."""

    name: str
    """Empty for a lambda."""
    parameters: Parameters
    words: frozenset[str] = frozenset()
    """The words before its name, such as `static`."""
    body: str = ""
    """Its text, up to the next function."""

    def choose(self, definition: Definition) -> str:
        """The expression that chooses the only output of several."""
        return "[0]" if len(definition.outputs) == 1 and self.words & {"vector", "tuple", "pair"} else ""

    def takes(self, *types: str) -> bool:
        """Whether the type of a parameter contains one of these texts."""
        return any(text in parameter.type for text in types for parameter in self.parameters)


def _leave_out_classes(code: str) -> str:
    """Code without the bodies of classes, whose functions cannot be called alone."""
    while found := _CLASS.search(code):
        braces = accumulate({"{": 1, "}": -1}.get(each, 0) for each in code[found.end() - 1 :])
        length = next((at for at, depth in enumerate(braces) if depth == 0), len(code))
        code = f"{code[: found.start()]} {code[found.end() + length :]}"
    return code


def find_functions(code: str) -> list[NativeFunction]:
    """The functions that code without comments and preprocessor lines defines outside of classes."""
    classes, code = {*_CLASS.findall(code)}, _leave_out_classes(code)
    matches = [match for match in _FUNCTION.finditer(code) if match["name"] not in _NOT_FUNCTIONS]
    found = []
    for match, following in zip(matches, [*matches[1:], None], strict=False):
        head = re.split("[;{}]", code[: match.start()])[-1]
        body = code[match.end() : following.start() if following else None]
        parameters = [_give_object(each, classes) for each in split_parameters(match["parameters"])]
        found.append(NativeFunction(match["name"], tuple(parameters), frozenset(re.findall(r"\w+", head)), body))
    return found


def _give_object(parameter: Parameter, classes: Collection[str]) -> Parameter:
    """Give a parameter whose type is one of these classes, such as a context, an object that its default makes."""
    kind = re.sub(r"\bconst\b|[\s*&]", "", parameter.type)
    made = f"std::make_unique<{kind}>()"
    return (
        replace(parameter, given=f"{made}.get()" if "*" in parameter.type else f"*{made}")
        if kind in classes
        else parameter
    )


def split_parameters(parameters: str) -> Parameters:
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
    declared, _, default = parameter.partition("=")
    words = " ".join(declared.split())
    found = re.fullmatch(r"(.*[\s*&])(\w+)", words)
    type_, name = (found[1], found[2]) if found else (words, "")
    return Parameter(name, re.sub(r"\s*([*&])\s*", r"\1", type_.strip()), given=default.strip())
