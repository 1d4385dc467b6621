"""Count what one program of a Triton kernel loads and stores, loops included, by the arguments of its launch.

Machine code does not say how often its loops run, and compilers unroll them. Triton's own representation has each loop
once, with its bounds.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from math import prod

from fib_rmsnorm.inspection.facts import Direction

_CONSTANT = re.compile(r"(%\S+) = arith\.constant (-?\d+) : (?:i\d+|index)\b")
_ARITHMETIC = re.compile(r"(%\S+) = arith\.(\w+) (%\S+), (%\S+) : (?:i\d+|index)\b")
_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "addi": operator.add,
    "subi": operator.sub,
    "muli": operator.mul,
    "divsi": operator.floordiv,  # of sizes, which are not negative
    "minsi": min,
    "maxsi": max,
}
_LOOP = re.compile(r"scf\.for %\S+ = (%\S+) to (%\S+) step (%\S+)")
_ACCESS = re.compile(r"\btt\.(load|store) .*[ <x](?:!tt\.ptr<)?b?[fi](\d+)")
_SHAPE = re.compile(r"tensor<((?:\d+x)+)")


def name_values(representation: str, arguments: Sequence[object]) -> dict[str, int]:
    """The whole numbers among the arguments of a launch other than constants, by their names in the representation."""
    signature = re.search(r"tt\.func public .*", representation)
    names = re.findall(r"(%\w+): ", signature[0] if signature else "")
    if len(names) != len(arguments):
        return {}
    return {name: value for name, value in zip(names, arguments, strict=True) if isinstance(value, int)}


def count_bytes(representation: str, arguments: Mapping[str, int]) -> dict[Direction, int] | None:
    """Count the bytes that a program moves each way; None where a loop depends on more than arguments and constants.

    `representation` is what Triton keeps as `ttir`. An access behind a condition, and all of a tensor behind a mask,
    count as made.
    """
    values = dict(arguments)
    moved: dict[Direction, int] = {"load": 0, "store": 0}
    depth, loops = 0, [(0, 1)]  # how deep the braces of each loop are, and how often it runs in all
    for line in representation.splitlines():
        if constant := _CONSTANT.search(line):
            values[constant[1]] = int(constant[2])
        elif found := _ARITHMETIC.search(line):
            _, operation, *operands = found.groups()
            if operation in _OPERATIONS and all(each in values for each in operands):
                values[found[1]] = _OPERATIONS[operation](*(values[each] for each in operands))
        elif loop := _LOOP.search(line):
            if not all(each in values for each in loop.groups()):
                return None
            passes = len(range(*(values[each] for each in loop.groups())))
            loops.append((depth + 1, passes * loops[-1][1]))
        elif "scf.while" in line:
            return None
        elif access := _ACCESS.search(line):
            shape = _SHAPE.search(line)
            elements = prod(map(int, shape[1].split("x")[:-1])) if shape else 1
            does: Direction = "load" if access[1] == "load" else "store"
            moved[does] += loops[-1][1] * elements * max(8, int(access[2])) // 8
        depth += line.count("{") - line.count("}")
        while depth < loops[-1][0]:
            loops.pop()
    return moved
