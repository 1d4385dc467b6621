"""Blocks and the ways between them -> the loops that they form."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import NamedTuple


class NaturalLoop(NamedTuple):
    """The blocks from which a pass may come back to the first one, without those outside."""

    header: int
    body: frozenset[int]
    """With the header."""
    latches: frozenset[int]
    """The blocks that go back to the header."""


def find_loops(successors: Sequence[Sequence[int]]) -> list[NaturalLoop]:
    """The loops of blocks that are entered at block 0, each by its only way in: the header.

    Several ways back to one header close one loop. Blocks that nothing reaches are in none, and cycles with several
    ways in, which hardly any compiler makes of loops, are none.
    """
    order = _reverse_postorder(successors)
    predecessors: dict[int, list[int]] = {block: [] for block in order}
    for block in order:
        for target in successors[block]:
            predecessors[target].append(block)
    places = {block: place for place, block in enumerate(order)}
    dominators = _immediate_dominators(order, places, predecessors)
    loops = []
    for header in order:
        # What a block dominates comes behind it in this order.
        back = (block for block in predecessors[header] if places[block] >= places[header])
        latches = frozenset(block for block in back if _dominates(header, block, places, dominators))
        if latches:
            body = {header, *reach(latches, {header}, predecessors)}
            loops.append(NaturalLoop(header, frozenset(body), latches))
    return loops


def innermost_loops(loops: Sequence[NaturalLoop]) -> list[NaturalLoop]:
    """The loops that contain no other."""
    headers = {loop.header for loop in loops}
    return [loop for loop in loops if not (headers - {loop.header}) & loop.body]


def is_on_every_pass(loop: NaturalLoop, blocks: Iterable[int], successors: Sequence[Sequence[int]]) -> bool:
    """Whether no way through the loop's body, from its header back to it, avoids all of these blocks."""
    avoided = set(blocks)
    if loop.header in avoided:
        return True
    within = {block: [each for each in successors[block] if each in loop.body] for block in loop.body}
    return not loop.latches & reach({loop.header}, avoided, within)


def reach(
    starts: Iterable[int], without: Iterable[int], ways: dict[int, list[int]] | Sequence[Sequence[int]]
) -> set[int]:
    """The blocks to which `ways` lead from the first ones, with them, past none of those in `without`."""
    avoided = set(without)
    waiting = [block for block in starts if block not in avoided]
    found = set(waiting)
    while waiting:
        for each in ways[waiting.pop()]:
            if each not in found and each not in avoided:
                found.add(each)
                waiting.append(each)
    return found


def _reverse_postorder(successors: Sequence[Sequence[int]]) -> list[int]:
    """The blocks that block 0 reaches, each before those that only it leads to."""
    seen = {0}
    order = []
    path = [(0, iter(successors[0]))]  # not recursion: functions have thousands of blocks
    while path:
        block, ways = path[-1]
        target = next((each for each in ways if each not in seen), None)
        if target is None:
            order.append(block)
            path.pop()
        else:
            seen.add(target)
            path.append((target, iter(successors[target])))
    return order[::-1]


def _immediate_dominators(order: list[int], places: dict[int, int], predecessors: dict[int, list[int]]) -> list[int]:
    """For the block at each place in the order, the place of the last one that all ways to it pass before it.

    As by Cooper, Harvey and Kennedy: what compilers make settles after two or three rounds.
    """
    unknown = -1
    dominators = [unknown] * len(order)
    dominators[0] = 0
    has_changed = True
    while has_changed:
        has_changed = False
        for place, block in enumerate(order[1:], start=1):
            known = [each for before in predecessors[block] if dominators[each := places[before]] != unknown]
            common = functools.reduce(lambda one, other: _meet(one, other, dominators), known)
            if dominators[place] != common:
                dominators[place] = common
                has_changed = True
    return dominators


def _meet(one: int, other: int, dominators: list[int]) -> int:
    """The last place that all ways to either pass."""
    while one != other:
        one, other = dominators[max(one, other)], min(one, other)
    return one


def _dominates(first: int, block: int, places: dict[int, int], dominators: list[int]) -> bool:
    """Whether all ways to a block pass the first one."""
    place = places[block]
    while place > places[first]:
        place = dominators[place]
    return place == places[first]
