"""Machine code of C++ functions -> what one pass of their inner loops executes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from fib_rmsnorm.inspection.facts import HostLoop
from fib_rmsnorm.inspection.machine_code.disassembly import innermost


class HostInstruction(NamedTuple):
    """A line of objdump."""

    address: int
    opcode: str
    operands: str


_TARGET = re.compile(r"(?:^|,\s*)([0-9a-f]+) <(.*?)(?:\+0x[0-9a-f]+)?>\s*$")
_BRANCH = re.compile(r"j[a-z]+|b(\.\w+)?|cbn?z|tbn?z")
_CALL = re.compile(r"call[q]?|bl")
# x86 names what it computes with at the end, p for packed and s for scalar; ARM by its registers.
_X86 = re.compile(r"v?(?P<what>add|sub|mul|div|sqrt|fn?m(?:add|sub|addsub|subadd)\d*)(?P<form>[ps])[sdh]")
_ARM = re.compile(r"f(?P<what>add|sub|mul|div|sqrt|n?m(?:add|sub)|ml[as])")
_WIDTHS = {"x": 16, "y": 32, "z": 64}


def read_loops(lines: Sequence[HostInstruction]) -> tuple[HostLoop, ...]:
    """The inner loops of a function that compute with floating-point numbers, in the order of the code."""
    if not lines:
        return ()
    start = lines[0].address
    ends = [each.address for each in lines if each.opcode.startswith("ret")]
    jumps = ((_target(each), each.address) for each in lines if _BRANCH.fullmatch(each.opcode))
    # A jump back over the function's end comes from rare cases, which compilers put behind it: no loop.
    spans = innermost(
        (target, last)
        for target, last in jumps
        if target is not None and start <= target < last and not any(target < end < last for end in ends)
    )
    bodies = ([each for each in lines if first <= each.address <= last] for first, last in spans)
    return tuple(loop for loop in map(_describe, bodies) if loop.vector or loop.scalar)


def _target(line: HostInstruction) -> int | None:
    match = _TARGET.search(line.operands)
    return int(match[1], 16) if match else None


def _describe(body: Sequence[HostInstruction]) -> HostLoop:
    found = [(each, arithmetic) for each in body if (arithmetic := _arithmetic(each))]
    kinds = [what for _, (what, _) in found]
    of_vectors = [what for _, (what, is_vector) in found if is_vector]
    calls = [match[2] for each in body if _CALL.fullmatch(each.opcode) and (match := _TARGET.search(each.operands))]
    return HostLoop(
        instructions=len(body),
        vector_bytes=max((_width(each.operands) for each, (_, is_vector) in found if is_vector), default=0),
        vector=sum(is_vector for _, (_, is_vector) in found),
        scalar=sum(not is_vector for _, (_, is_vector) in found),
        fused=kinds.count("fused"),
        multiplies_and_adds=(of_vectors.count("mul"), of_vectors.count("add") + of_vectors.count("sub")),
        divisions=kinds.count("div") + kinds.count("sqrt"),
        calls=tuple(sorted({_without_arguments(shorten(name)).removesuffix("@plt") for name in calls})),
    )


def _arithmetic(line: HostInstruction) -> tuple[str, bool] | None:
    """What an instruction computes, and whether with vectors; None if it computes no floating-point number."""
    if match := _X86.fullmatch(line.opcode):
        return _kind(match["what"]), match["form"] == "p"
    if "%" not in line.operands and (match := _ARM.fullmatch(line.opcode)):
        return _kind(match["what"]), re.search(r"\bv\d", line.operands) is not None
    return None


def _kind(what: str) -> str:
    return what if what in ("add", "sub", "mul", "div", "sqrt") else "fused"


def _width(operands: str) -> int:
    return max((_WIDTHS[letter] for letter in re.findall(r"%([xyz])mm", operands)), default=16)


def shorten(name: str) -> str:
    """A function's name without its result, its parameters and namespaces that have no name."""
    name = name.replace("(anonymous namespace)::", "").partition("(")[0]
    begin = depth = 0
    for at, letter in enumerate(name):
        depth += (letter == "<") - (letter == ">")
        if letter == " " and not depth and not name[:at].endswith("operator"):
            begin = at + 1
    return name[begin:]


def _without_arguments(name: str) -> str:
    """The name of a template, of which a function calls one instance for each of its own types."""
    while (shorter := re.sub(r"<[^<>]*>", "", name)) != name:
        name = shorter
    return name
