"""Find offsets that a Triton kernel computes in 32 bits and that do not fit, by upper bounds of its values."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

_RESULT = re.compile(r"(%\S+) = (?:arith|tt)\.(\w+) (.*) : (.*) loc\((#loc\d*)\)")
_LOOP = re.compile(r"scf\.for (%\S+) = %\S+ to (%\S+) step (%\S+)(?: iter_args\((.*?)\))?")
_NUMBER = re.compile(r"(?:dense<|end = )?(-?\d+)\b")
# Sizes and indices, which are not negative.
_BOUNDS: dict[str, Callable[..., int]] = {
    "addi": lambda left, right: left + right,
    "subi": lambda left, right: left,
    "muli": lambda left, right: left * right,
    "divsi": lambda left, right: left // max(right, 1),
    "remsi": lambda left, right: min(left, right - 1),
    "minsi": min,
    "maxsi": max,
}
_BOUNDS |= dict.fromkeys(
    ("splat", "expand_dims", "broadcast", "reshape", "extsi", "extui", "trunci"), lambda same: same
)


def find_wrap(representation: str, values: Mapping[str, int], grid: Sequence[int]) -> str | None:
    """Find the line of the source, such as `kernel.py:12`, whose result is part of an offset and exceeds 32 bits.

    `representation` is what Triton keeps as `ttir`, and `values` names whole numbers there. None if all offsets fit, as
    far as their bounds are known: those of values in memory are not.
    """
    growth: dict[str, int] = {}  # of values that a loop carries and adds to, as the first reading finds
    return _read(representation, values, grid, growth) or _read(representation, values, grid, growth)


def _read(representation: str, values: Mapping[str, int], grid: Sequence[int], growth: dict[str, int]) -> str | None:
    bounds, wrapped, sums = dict(values), dict[str, str](), dict[str, tuple[str, int]]()
    for line in representation.splitlines():
        if (loop := _LOOP.search(line)) and loop[2] in bounds:
            bounds[loop[1]] = bounds[loop[2]] - 1
            passes = bounds[loop[2]] // max(bounds.get(loop[3], 1), 1)
            for name, start in re.findall(r"(%\w+) = (%\w+)", loop[4] or ""):
                if start in bounds:
                    bounds[name] = bounds[start] + passes * growth.get(name, 0)
        if "scf.yield" in line:
            growth.update(sums[each] for each in re.findall(r"%\w+", line) if each in sums)
        if not (found := _RESULT.search(line)):
            continue
        result, operation, rest, kind, place = found.groups()
        operands = re.findall(r"%[\w#]+", rest)
        known = [bounds[each] for each in operands if each in bounds]
        if operation == "addptr" and operands[1] in wrapped:
            return _find_line(representation, wrapped[operands[1]])
        if operation in ("get_program_id", "get_num_programs"):
            bounds[result] = grid["xyz".index(rest)] - (operation == "get_program_id")
        elif operation in ("constant", "make_range") and (number := _NUMBER.search(rest)):
            bounds[result] = int(number[1]) - (operation == "make_range")
        elif operation in _BOUNDS and len(known) == len(operands):
            bounds[result] = _BOUNDS[operation](*known)
            if operation == "addi":
                sums[result] = operands[0], known[1]
            first = [wrapped[each] for each in operands if each in wrapped]
            if first or (bounds[result] >= 1 << 31 and re.search(r"\bi32\b|xi32>$", kind)):
                wrapped[result] = first[0] if first else place
    return None


def _find_line(representation: str, place: str) -> str:
    """The file and line of a place, which may name another: that of a value, or in a function that is called."""
    places = dict(re.findall(r"^(#loc\d*) = loc\((.*)\)$", representation, re.MULTILINE))
    while not (found := re.match(r'"(.*)":(\d+):', places[place])):
        inner = re.search(r"#loc\d*", places[place])
        if inner is None:
            return "an offset"
        place = inner[0]
    return f"{Path(found[1]).name}:{found[2]}"
