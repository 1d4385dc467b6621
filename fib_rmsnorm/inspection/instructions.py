"""Count the instructions of a kernel by kind, its accesses to global memory and its loops, whatever the GPU."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fib_rmsnorm.inspection.facts import Access, Code, Direction, Loop

OTHER = "integer, moves and the rest"
KINDS = (
    *("global loads", "global stores", "asynchronous copies", "shared loads", "shared stores"),
    *("spill loads", "spill stores", "atomics", "fused multiply-adds", "other floating point", "conversions"),
    *("special functions", "shuffles", "barriers", "branches", OTHER),
)
"""The kinds of instructions, in the order in which they are told."""


@dataclass(frozen=True)
class Instruction:
    """One instruction of a kernel."""

    address: int
    kind: str | None
    """None for an instruction that does nothing: padding, and the end."""
    access: tuple[Direction, int] | None = None
    """Its access to global memory, and the bytes of a thread."""


def summarize(code: Sequence[Instruction], loops: Sequence[tuple[int, int]]) -> Code:
    """Count the kinds and the accesses, in `loops` and outside; of each loop, the first and last address are given."""
    counts = Counter(each.kind for each in code if each.kind is not None)
    accesses: Counter[tuple[Direction, int, bool]] = Counter()
    for each in code:
        if each.access is not None:
            does, width = each.access
            in_loop = any(first <= each.address <= last for first, last in loops)
            accesses[does, width, in_loop] += 1
    return Code(
        instructions={kind: counts[kind] for kind in KINDS if counts[kind]},
        accesses=tuple(
            Access(does=does, bytes=width, count=number, in_loop=in_loop)
            for (does, width, in_loop), number in sorted(accesses.items())
        ),
        loops=len(loops),
        inner_loops=tuple(
            _describe_loop([each for each in code if first <= each.address <= last])
            for first, last in _innermost(loops)
        ),
    )


def _innermost(loops: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The loops (first and last address) that contain no other; several branches to one start close one loop."""
    ends: dict[int, int] = {}
    for first, last in loops:
        ends[first] = max(last, ends.get(first, last))
    spans = sorted(ends.items())
    return [(first, last) for first, last in spans if not any(first < other <= last for other, _ in spans)]


def _describe_loop(body: Sequence[Instruction]) -> Loop:
    widths = [each.access[1] for each in body if each.access is not None and each.access[0] == "load"]
    return Loop(
        instructions=sum(each.kind is not None for each in body),
        loads=len(widths),
        load_bytes=sum(widths),
        stores=sum(each.kind == "atomics" or (each.access or ("", 0))[0] == "store" for each in body),
        barriers=sum(each.kind == "barriers" for each in body),
    )
