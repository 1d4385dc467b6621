"""Machine code of a C++ function -> its basic blocks, and which follows which."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from fib_rmsnorm.inspection.machine_code.natural_loops import reach


class HostInstruction(NamedTuple):
    """A line of objdump."""

    address: int
    opcode: str
    operands: str


class HostBlocks(NamedTuple):
    """A function's instructions, parted where jumps begin and end."""

    blocks: list[list[HostInstruction]]
    """In the order of the code; the first is the function's entry."""
    successors: list[list[int]]
    """The blocks, by their number, that may be executed next."""


_TARGET = re.compile(r"(?:^|,\s*)([0-9a-f]+) <(.*?)(?:\+0x[0-9a-f]+)?>\s*$")
_JUMP = re.compile(r"jmpq?|b|br(a[ab]z?)?")
_BRANCH = re.compile(r"j[a-z]+|loop\w*|bc?\.\w+|cbn?z|tbn?z")
_CALL = re.compile(r"callq?|bl")
_END = re.compile(r"ret\w*|ud2|hlt|udf|brk")
_PADDING = re.compile(r"nop\w?|data16|cs|xchg")
_PREFIXES = ("notrack", "bnd", "rep", "repz")
# What follows a call of these is another block's code. Compilers know it of more functions.
_NEVER_RETURNS = re.compile(
    r"(std::)?(abort|terminate|exit|_Exit|quick_exit|__throw_\w+|rethrow_exception|__glibcxx_assert_fail)|_exit"
    r"|__cxa_(re)?throw\w*|__cxa_bad_\w+|_Unwind_Resume|__stack_chk_fail|__assert_fail|__clang_call_terminate"
    r"|tvm::ffi::details::ErrorBuilder::~ErrorBuilder|c10::detail::torch\w*Fail"
)


def part_blocks(lines: Sequence[HostInstruction]) -> HostBlocks:
    """The blocks of a function that has instructions. Jumps out of it end it, and calls are as any instruction."""
    lines = [_without_prefix(line) for line in lines]
    inside = {line.address for line in lines}
    targets = {target for line in lines if _jumps(line) and (target := _target(line)) in inside}
    blocks: list[list[HostInstruction]] = []
    has_ended = True
    for line in lines:
        if has_ended or line.address in targets:
            blocks.append([])
        blocks[-1].append(line)
        has_ended = _jumps(line) or _ends(line)
    starts = {block[0].address: number for number, block in enumerate(blocks)}
    successors = [list(_successors(number, blocks, starts)) for number in range(len(blocks))]
    _follow_tables(blocks, successors)
    return HostBlocks(blocks, successors)


def name_callee(line: HostInstruction) -> str | None:
    """The function that an instruction calls, as objdump writes it, if it calls one."""
    match = _TARGET.search(line.operands) if _CALL.fullmatch(line.opcode) else None
    return match[2].removesuffix("@plt") if match else None


def _without_prefix(line: HostInstruction) -> HostInstruction:
    if line.opcode not in _PREFIXES:
        return line
    opcode, _, operands = line.operands.partition(" ")
    return HostInstruction(line.address, opcode, operands.lstrip())


def _jumps(line: HostInstruction) -> bool:
    return _JUMP.fullmatch(line.opcode) is not None or _BRANCH.fullmatch(line.opcode) is not None


def _ends(line: HostInstruction) -> bool:
    """Whether nothing follows, but for jumps."""
    name = name_callee(line)
    if name is not None:
        return _NEVER_RETURNS.fullmatch(name.partition("(")[0]) is not None
    return _END.fullmatch(line.opcode) is not None


def _target(line: HostInstruction) -> int | None:
    match = _TARGET.search(line.operands)
    return int(match[1], 16) if match else None


def _successors(number: int, blocks: list[list[HostInstruction]], starts: dict[int, int]) -> Iterator[int]:
    last = blocks[number][-1]
    if _jumps(last) and (target := _target(last)) in starts:
        yield starts[target]
    if number + 1 < len(blocks) and not _JUMP.fullmatch(last.opcode) and not _ends(last):
        yield number + 1


def _follow_tables(blocks: list[list[HostInstruction]], successors: list[list[int]]) -> None:
    """Let jumps by a table, as of a `switch`, lead to each block to which no other way does.

    objdump does not tell the table. Other blocks without a way in are where exceptions are caught.
    """
    tables = [number for number, block in enumerate(blocks) if _reads_table(block[-1])]
    if not tables:
        return
    reached = reach({0}, (), successors)
    for number, block in enumerate(blocks):
        if number not in reached and not all(_PADDING.fullmatch(line.opcode) for line in block):
            for table in tables:
                successors[table].append(number)
            reached |= reach({number}, reached, successors)


def _reads_table(line: HostInstruction) -> bool:
    """Whether an instruction jumps to where a register says; by the instruction pointer, another function is found."""
    return _JUMP.fullmatch(line.opcode) is not None and _target(line) is None and "%rip" not in line.operands
