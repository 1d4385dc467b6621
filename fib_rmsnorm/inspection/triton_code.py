"""Follow the sizes and indices of a Triton kernel: what a program loads and stores, and offsets that exceed 32 bits.

Machine code does not say how often its loops run, and compilers unroll them. Triton's own representation, which it
keeps as `ttir`, has each loop once, with its bounds.
"""

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from math import prod
from pathlib import Path

from fib_rmsnorm.inspection.facts import Direction

_RESULT = re.compile(r"(%\S+) = (?:arith|tt)\.(\w+) (.*) : (.*) loc\((#loc\d*)\)")
_CONSTANT = re.compile(r"(?:dense<)?(-?\d+)\b")
_Operations = Mapping[str, Callable[..., int]]
_VALUES: _Operations = {
    "addi": operator.add,
    "subi": operator.sub,
    "muli": operator.mul,
    "divsi": operator.floordiv,  # of sizes, which are not negative
    "minsi": min,
    "maxsi": max,
}
_BOUNDS: _Operations = {
    **_VALUES,
    "subi": lambda left, right: left,
    "divsi": lambda left, right: left // max(right, 1),
    "remsi": lambda left, right: min(left, right - 1),
    **dict.fromkeys(("splat", "expand_dims", "broadcast", "reshape", "extsi", "extui", "trunci"), lambda same: same),
}
"""Upper bounds of results, from those of the operands."""
_LOOP = re.compile(r"scf\.for (%\S+) = (%\S+) to (%\S+) step (%\S+)(?: iter_args\((.*?)\))?")
_ACCESS = re.compile(r"\btt\.(load|store) .*[ <x](?:!tt\.ptr<)?b?[fi](\d+)")
_SHAPE = re.compile(r"tensor<((?:\d+x)+)")


def name_values(representation: str, arguments: Sequence[object]) -> dict[str, int]:
    """The whole numbers among the arguments of a launch other than constants, by their names in the representation."""
    signature = re.search(r"tt\.func public .*", representation)
    names = re.findall(r"(%\w+): ", signature[0] if signature else "")
    if len(names) != len(arguments):
        return {}
    return {name: value for name, value in zip(names, arguments, strict=True) if isinstance(value, int)}


def _follow(line: str, values: dict[str, int], operations: _Operations) -> re.Match[str] | None:
    """Note the value of a line's result, if that is a constant or follows from known values."""
    if found := _RESULT.search(line):
        operands = re.findall(r"%[\w#]+", found[3])
        if found[2] == "constant" and (number := _CONSTANT.match(found[3])):
            values[found[1]] = int(number[1])
        elif found[2] in operations and all(each in values for each in operands):
            values[found[1]] = operations[found[2]](*(values[each] for each in operands))
    return found


def count_bytes(representation: str, arguments: Mapping[str, int]) -> dict[Direction, int] | None:
    """Count the bytes that a program moves each way; None where a loop depends on more than arguments and constants.

    An access behind a condition, and all of a tensor behind a mask, count as made.
    """
    values = dict(arguments)
    moved: dict[Direction, int] = {"load": 0, "store": 0}
    depth, loops = 0, [(0, 1)]  # how deep the braces of each loop are, and how often it runs in all
    for line in representation.splitlines():
        _follow(line, values, _VALUES)
        if loop := _LOOP.search(line):
            bounds = loop.group(2, 3, 4)
            if not all(each in values for each in bounds):
                return None
            passes = len(range(*(values[each] for each in bounds)))
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


def find_wrap(representation: str, arguments: Mapping[str, int], grid: Sequence[int]) -> str | None:
    """Find the line of the source, such as `kernel.py:12`, whose result is part of an offset and exceeds 32 bits.

    None if all offsets fit, as far as their bounds are known: those of values in memory are not.
    """
    growth: dict[str, int] = {}  # of values that a loop carries and adds to, as the first reading finds
    return _find_wrap(representation, arguments, grid, growth) or _find_wrap(representation, arguments, grid, growth)


def _find_wrap(code: str, arguments: Mapping[str, int], grid: Sequence[int], growth: dict[str, int]) -> str | None:
    bounds, wrapped, sums = dict(arguments), dict[str, str](), dict[str, tuple[str, int]]()
    for line in code.splitlines():
        if (loop := _LOOP.search(line)) and loop[3] in bounds:
            bounds[loop[1]] = bounds[loop[3]] - 1
            passes = bounds[loop[3]] // max(bounds.get(loop[4], 1), 1)
            for name, start in re.findall(r"(%\w+) = (%\w+)", loop[5] or ""):
                if start in bounds:
                    bounds[name] = bounds[start] + passes * growth.get(name, 0)
        if "scf.yield" in line:
            growth.update(sums[each] for each in re.findall(r"%\w+", line) if each in sums)
        if not (found := _follow(line, bounds, _BOUNDS)):
            continue
        result, operation, rest, kind, place = found.groups()
        operands = re.findall(r"%[\w#]+", rest)
        first = next((wrapped[each] for each in operands if each in wrapped), None)
        if operation == "addptr" and operands[1] in wrapped:
            return _find_line(code, wrapped[operands[1]])
        if operation in ("get_program_id", "get_num_programs"):
            bounds[result] = grid["xyz".index(rest)] - (operation == "get_program_id")
        elif operation == "make_range" and (end := re.search(r"end = (\d+)", rest)):
            bounds[result] = int(end[1]) - 1
        elif first or (bounds.get(result, 0) >= 1 << 31 and re.search(r"\bi32\b|xi32>$", kind)):
            wrapped[result] = first or place
        if operation == "addi" and operands[1] in bounds:
            sums[result] = operands[0], bounds[operands[1]]
    return None


def _find_line(code: str, place: str) -> str:
    """The file and line of a place, which may name another: that of a value, or in a function that is called."""
    places = dict(re.findall(r"^(#loc\d*) = loc\((.*)\)$", code, re.MULTILINE))
    while not (found := re.match(r'"(.*)":(\d+):', places[place])):
        inner = re.search(r"#loc\d*", places[place])
        if inner is None:
            return "an offset"
        place = inner[0]
    return f"{Path(found[1]).name}:{found[2]}"
