"""Machine code of C++ functions -> what their inner loops compute and call."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from fib_rmsnorm.inspection.facts import HostLoop
from fib_rmsnorm.inspection.machine_code.host_blocks import HostBlocks, HostInstruction, name_callee, part_blocks
from fib_rmsnorm.inspection.machine_code.natural_loops import (
    NaturalLoop,
    find_loops,
    innermost_loops,
    is_on_every_pass,
)

# x86 names what it computes with at the end, p for packed and s for scalar; ARM by its registers.
_X86 = re.compile(r"v?(?P<what>add|sub|mul|div|sqrt|fn?m(?:add|sub|addsub|subadd)\d*)(?P<form>[ps])[sdh]")
_ARM = re.compile(r"f(?P<what>add|sub|mul|div|sqrt|n?m(?:add|sub)|ml[as])")
_WIDTHS = {"x": 16, "y": 32, "z": 64}


def read_loops(lines: Sequence[HostInstruction]) -> tuple[HostLoop, ...]:
    """The inner loops of a function that compute with floating-point numbers, in the order of the code."""
    if not lines:
        return ()
    code = part_blocks(lines)
    loops = sorted(innermost_loops(find_loops(code.successors)), key=lambda loop: loop.header)
    return tuple(each for each in (_describe(loop, code) for loop in loops) if each.vector or each.scalar)


def _describe(loop: NaturalLoop, code: HostBlocks) -> HostLoop:
    body = [line for block in sorted(loop.body) for line in code.blocks[block]]
    found = [(each, arithmetic) for each in body if (arithmetic := _arithmetic(each))]
    kinds = [what for _, (what, _) in found]
    of_vectors = [what for _, (what, is_vector) in found if is_vector]
    return HostLoop(
        instructions=len(body),
        vector_bytes=max((_width(each.operands) for each, (_, is_vector) in found if is_vector), default=0),
        vector=sum(is_vector for _, (_, is_vector) in found),
        scalar=sum(not is_vector for _, (_, is_vector) in found),
        fused=kinds.count("fused"),
        multiplies_and_adds=(of_vectors.count("mul"), of_vectors.count("add") + of_vectors.count("sub")),
        divisions=kinds.count("div") + kinds.count("sqrt"),
        calls=tuple(sorted(_calls_of_every_pass(loop, code))),
    )


def _calls_of_every_pass(loop: NaturalLoop, code: HostBlocks) -> Iterator[str]:
    """The functions without which no pass is. Rare cases call others, such as sqrtf, which tells negative numbers."""
    callers: dict[str, set[int]] = {}
    for block in loop.body:
        for name in filter(None, map(name_callee, code.blocks[block])):
            callers.setdefault(_without_arguments(shorten(name)), set()).add(block)
    return (name for name, blocks in callers.items() if is_on_every_pass(loop, blocks, code.successors))


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
