"""Follow a thread of a CUDA kernel through its PTX, and find offsets of global memory that 32 bits do not hold.

Only whole numbers are followed, through the branches that they decide. They have no limits here: a number that a signed
register of 32 bits cannot hold is wrong where an operation sees no more than that, as one that makes 64 bits of it.
"""

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import compress
from pathlib import Path
from typing import NamedTuple

_MOST_STEPS = 500_000
"""The steps of a thread that are followed: about a second."""
_INSTRUCTION = re.compile(r"[{}\s]*(?:@(!?)(%\w+)\s+)?([a-z][\w.:]*)\s*(.*)", re.DOTALL)
_NAME = re.compile(r"(?:mul|mad)\.(?:lo|hi|wide)|[a-z]+")
_OPERAND = re.compile(r"\[[^]]*\]|\{[^}]*\}|[^\s,]+")
_ADDRESS = re.compile(r"\[([%\w$]+)(?:\+(\d+))?")
_PARAMETER = re.compile(
    r"^\.param (?:\.align \d+ )?\.[a-z]+(\d+)(?: \.ptr[.\w ]*?)? (\w+)(?:\[(\d+)\])?,?$", re.MULTILINE
)
_ENTRY = re.compile(r"^(?:\.visible |\.weak )?\.entry (\w+)\(", re.MULTILINE)

_EXACT: Mapping[str, Callable[..., int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul.lo": operator.mul,
    "mad.lo": lambda left, right, more: left * right + more,
    "shl": lambda value, bits: value << min(bits, 64),
    "neg": operator.neg,
    "not": operator.invert,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "mov": operator.pos,
    "cvta": operator.pos,
    "selp": lambda left, right, chosen: left if chosen else right,
}
"""Operations whose lower bits depend on no other bits of the operands."""
_OF_VALUES: Mapping[str, Callable[..., int]] = {
    "shr": lambda value, bits: value >> min(bits, 64),
    "div": lambda left, right: abs(left) // abs(right or 1) * (-1 if (left < 0) != (right < 0) else 1),
    "rem": lambda left, right: abs(left) % abs(right or 1) * (-1 if left < 0 else 1),
    "min": min,
    "max": max,
    "abs": abs,
    "mul.hi": operator.mul,
    "mul.wide": operator.mul,
    "mad.wide": lambda left, right, more: left * right + more,
    "cvt": operator.pos,
}
_COMPARISONS = {
    **{name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    **{"lo": operator.lt, "ls": operator.le, "hi": operator.gt, "hs": operator.ge},
}
_JUMPS = ("bra", "ret", "exit", "trap")
_Place = tuple[str, str]
"""The number of the file, and the line."""


class _Instruction(NamedTuple):
    guard: str | None
    is_negated: bool
    name: str
    modifiers: list[str]
    results: list[str]
    operands: list[str | int]
    addresses: list[str]
    """The registers of the addresses that it accesses, unless they are of memory of the block or the thread."""
    bits: int
    """The size of the whole numbers that it works on; 0 for other types."""
    is_signed: bool
    result_bits: int
    place: _Place

    def view(self, value: int) -> int:
        """A number as it sees the bits that it works on."""
        seen = value & ((1 << self.bits) - 1)
        return seen - (1 << self.bits) if self.is_signed and seen >> (self.bits - 1) else seen


class PtxCode:
    """A kernel's instructions."""

    def __init__(self, text: str, files: Mapping[str, str]) -> None:
        """Read what follows the kernel's name; `files` are the sources by their numbers."""
        head, _, body = text.partition("\n)")
        self.parameters = {name: int(bits) // 8 * int(count or 1) for bits, name, count in _PARAMETER.findall(head)}
        """The size of each in bytes."""
        self._files = files
        self._code: list[_Instruction] = []
        self._labels: dict[str, int] = {}
        place, statement = ("", ""), ""
        for line in body.splitlines():
            if loc := re.match(r"\.loc\s+(\d+) (\d+)", line):
                place = loc[1], loc[2]
            elif label := re.match(r"(\$\w+):", line):
                self._labels[label[1]] = len(self._code)
            else:
                *done, statement = f"{statement}{line}\n".split(";")
                self._code += [_read(found, place) for each in done if (found := _INSTRUCTION.match(each))]
        self._drop_unneeded()

    def _drop_unneeded(self) -> None:
        """Drop what neither an address nor a branch depends on: most of a kernel computes in floating point."""
        needed, before = {name for each in self._code for name in (each.guard, *each.addresses)}, 0
        while len(needed) > before:
            before = len(needed)
            needed.update(
                name
                for each in self._code
                if each.bits and not needed.isdisjoint(each.results)
                for name in each.operands
                if isinstance(name, str)
            )
        kept = [each.name in _JUMPS or each.addresses or not needed.isdisjoint(each.results) for each in self._code]
        self._labels = {name: sum(map(bool, kept[:at])) for name, at in self._labels.items()}
        self._code = list(compress(self._code, kept))

    def find_wrap(self, arguments: Sequence[bytes], grid: Sequence[int], block: Sequence[int]) -> str | None:
        """Find the line, such as `kernel.cu:12`, whose result is part of an offset and exceeds 32 bits.

        The first and the last thread of the last block are followed.
        """
        given = dict(zip(self.parameters, arguments, strict=False))  # none of a launch that packs them
        for thread in ((0, 0, 0), [each - 1 for each in block]):
            sizes = {"ctaid": [each - 1 for each in grid], "nctaid": grid, "tid": thread, "ntid": block}
            special = {
                f"%{name}.{axis}": size for name, of in sizes.items() for axis, size in zip("xyz", of, strict=True)
            }
            special["%laneid"] = (thread[0] + block[0] * (thread[1] + block[1] * thread[2])) % 32
            if place := _Thread(special, given).follow(self._code, self._labels):
                return f"{Path(self._files[place[0]]).name}:{place[1]}" if place[0] in self._files else "an offset"
        return None


def read_ptx(listing: str) -> dict[str, PtxCode]:
    """Read the kernels of cuobjdump's listing of PTX, by their names as mangled."""
    kernels = {}
    for text in listing.split("Fatbin ptx code:")[1:]:
        files = dict(re.findall(r'^\.file\s+(\d+) "(.*?)"', text, re.MULTILINE))
        parts = _ENTRY.split(text)[1:]
        kernels.update({name: PtxCode(part, files) for name, part in zip(parts[::2], parts[1::2], strict=True)})
    return kernels


def _read(found: re.Match[str], place: _Place) -> _Instruction:
    operands, name = _OPERAND.findall(found[4]), _NAME.match(found[3])
    results = re.findall(r"[%$\w]+", operands[0]) if operands and operands[0][0] != "[" else []
    of_block = re.search(r"shared|local|param", found[3]) and "global" not in found[3]
    whole, others = re.findall(r"\.([usb])(\d+)", found[3]), re.search(r"\.(bf|f|e|tf)\d", found[3])
    kind, bits = whole[-1] if whole and not others else ("b", "1" if ".pred" in found[3] else "0")
    return _Instruction(
        guard=found[2],
        is_negated=bool(found[1]),
        name=name[0] if name else "",
        modifiers=found[3].split("."),
        results=results,
        operands=[_parse(operand) for operand in operands[bool(results) :]],
        addresses=[] if of_block else [address[1] for each in operands if (address := _ADDRESS.match(each))],
        bits=int(bits),
        is_signed=kind == "s",
        result_bits=int(bits) * 2 if ".wide" in found[3] else int(whole[0][1]) if whole else 0,
        place=place,
    )


def _parse(operand: str) -> str | int:
    return int(operand.rstrip("U"), 0) if re.fullmatch(r"-?\d+|0x[0-9A-Fa-f]+U?", operand) else operand


class _Thread:
    """The registers of one thread; None for what is not known."""

    def __init__(self, special: Mapping[str, int], parameters: Mapping[str, bytes]) -> None:
        self._values: dict[str, int | None] = dict(special)
        self._parameters = parameters
        self._beyond: dict[str, _Place] = {}
        """Places that computed numbers which a signed register of 32 bits cannot hold, by the registers they are in."""
        self._wrong: dict[str, _Place] = {}
        """The same places for numbers that this made wrong."""

    def follow(self, code: Sequence[_Instruction], labels: Mapping[str, int]) -> _Place | None:
        """Run the code, and return the place that computed the number by which an address is wrong."""
        at = 0
        for _ in range(_MOST_STEPS):
            if at >= len(code):
                break
            each = code[at]
            at += 1
            passes = self._values.get(each.guard) if each.guard else 1
            if passes is not None and bool(passes) == each.is_negated:
                continue
            if each.name == "bra" and passes is not None:
                at = labels[each.results[0]] if each.results else at
            elif each.name in _JUMPS[1:]:
                if passes is not None:
                    break
            else:
                if wrong := [self._wrong[name] for name in each.addresses if name in self._wrong]:
                    return wrong[0]
                self._compute(each)
        return None

    def _compute(self, each: _Instruction) -> None:
        values = [name if isinstance(name, int) else self._values.get(name) for name in each.operands]
        known = [value for value in values if value is not None]
        read = [name for name in each.operands if isinstance(name, str)]
        beyond = next((self._beyond[name] for name in read if name in self._beyond), each.place)
        wrong = next((self._wrong[name] for name in read if name in self._wrong), None)
        for name in each.results:
            self._values[name] = None
            self._beyond.pop(name, None)
            self._wrong.pop(name, None)
        if each.name == "ld" and "param" in each.modifiers:
            self._load_parameter(each)
        if not each.bits or len(each.results) != 1 or len(known) < len(values):
            return
        result = each.results[0]
        if each.name == "setp" and len(values) == 2:
            self._values[result] = _COMPARISONS[each.modifiers[1]](*map(each.view, known))
        elif each.name in _EXACT:
            self._values[result] = _EXACT[each.name](*known) & (1 if each.bits == 1 else -1)
        elif each.name in _OF_VALUES:
            seen = [each.view(value) if number < 2 else value for number, value in enumerate(known)]
            changed = each.bits == 32 and any(
                one != other and not -(1 << 31) <= one < 1 << 31 for one, other in zip(known, seen, strict=True)
            )
            wrong = wrong or (beyond if changed else None)
            self._values[result] = _OF_VALUES[each.name](*seen) >> (each.bits if each.name == "mul.hi" else 0)
        value = self._values[result]
        if value is not None and not -(1 << 31) <= value < 1 << 31 and each.result_bits == 32:
            self._beyond[result] = beyond
        if wrong:
            self._wrong[result] = wrong

    def _load_parameter(self, each: _Instruction) -> None:
        address, size = _ADDRESS.match(str(each.operands[0])), each.bits // 8
        stored = self._parameters.get(address[1], b"") if address else b""
        start = int(address[2] or 0) if address else 0
        for number, name in enumerate(each.results):
            if part := stored[start + number * size :][:size]:
                self._values[name] = int.from_bytes(part, "little", signed=each.is_signed)
