"""Machine code of a C++ function -> its basic blocks, which follows which, and the loops that they form."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import networkx


class HostInstruction(NamedTuple):
    """A line of objdump."""

    address: int
    opcode: str
    operands: str


class InnerLoop(NamedTuple):
    """The blocks of a loop without loops in it."""

    header: int
    """Its only way in."""
    body: frozenset[int]
    """With the header."""


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


def part_blocks(lines: Sequence[HostInstruction]) -> tuple[list[list[HostInstruction]], networkx.DiGraph]:
    """A function's instructions, parted where jumps begin and end, and the graph of which block may follow which.

    The blocks are numbered in the order of the code; the first is the function's entry. Jumps out of the function end
    it, and calls are as any instruction.
    """
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
    graph = networkx.DiGraph()
    graph.add_nodes_from(range(len(blocks)))
    for number, block in enumerate(blocks):
        last = block[-1]
        if _jumps(last) and (target := _target(last)) in starts:
            graph.add_edge(number, starts[target])
        if number + 1 < len(blocks) and not _JUMP.fullmatch(last.opcode) and not _ends(last):
            graph.add_edge(number, number + 1)
    _follow_tables(blocks, graph)
    return blocks, graph


def find_inner_loops(graph: networkx.DiGraph) -> Iterator[InnerLoop]:
    """The loops of blocks that are entered at block 0, each by its only way in, without loops in them.

    Several ways back to one header close one loop. Blocks that nothing reaches are in none, and cycles with several
    ways in, which hardly any compiler makes of loops, are none.
    """
    reached = graph.subgraph({0} | networkx.descendants(graph, 0))
    waiting = [reached]
    while waiting:
        part = waiting.pop()
        for body in networkx.strongly_connected_components(part):
            headers = [block for block in body if block == 0 or not body.issuperset(reached.pred[block])]
            is_cycle = len(body) > 1 or part.has_edge(headers[0], headers[0])
            if not is_cycle or len(headers) > 1:
                continue
            within = part.subgraph(body - set(headers)).copy()
            if networkx.is_directed_acyclic_graph(within):
                yield InnerLoop(headers[0], frozenset(body))
            else:
                waiting.append(within)


def is_on_every_pass(loop: InnerLoop, blocks: Iterable[int], graph: networkx.DiGraph) -> bool:
    """Whether no way through the loop's body, from its header back to it, avoids all of these blocks."""
    avoiding = graph.subgraph(loop.body.difference(blocks))
    if loop.header not in avoiding:
        return True
    passed = {loop.header} | networkx.descendants(avoiding, loop.header)
    return not passed.intersection(graph.pred[loop.header])  # none goes back to the header


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


def _follow_tables(blocks: list[list[HostInstruction]], graph: networkx.DiGraph) -> None:
    """Let jumps by a table, as of a `switch`, lead to each block to which no other way does.

    objdump does not tell the table. Other blocks without a way in are where exceptions are caught.
    """
    # A jump to where a register says; by the instruction pointer, another function is found.
    lasts = ((number, block[-1]) for number, block in enumerate(blocks))
    tables = [
        number
        for number, last in lasts
        if _JUMP.fullmatch(last.opcode) and _target(last) is None and "%rip" not in last.operands
    ]
    reached = {0} | networkx.descendants(graph, 0)
    for number, block in enumerate(blocks):
        if tables and number not in reached and not all(_PADDING.fullmatch(line.opcode) for line in block):
            graph.add_edges_from((table, number) for table in tables)
            reached |= {number} | networkx.descendants(graph, number)
