"""Machine code (SASS) of CUDA kernels -> instructions by kind, and the accesses to global memory."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Access:
    """Equal instructions that read or write global memory."""

    does: Literal["load", "store"]
    bytes: int
    """Of a thread, by one instruction."""
    count: int
    in_loop: bool
    """Whether they are executed again and again, nobody knows how often."""


@dataclass(frozen=True)
class Code:
    """One kernel's instructions."""

    instructions: dict[str, int]
    """How many there are of each kind; kinds that do not occur are left out."""
    accesses: tuple[Access, ...]
    loops: int
    source: Literal["SASS", "PTX"] = "SASS"


@dataclass
class _Instruction:
    address: int
    opcode: str
    operands: str


# By the first part of the opcode, in the order in which they are told.
_KINDS: dict[str, tuple[str, ...]] = {
    "global loads": ("LDG", "LD"),
    "global stores": ("STG", "ST"),
    "asynchronous copies": ("LDGSTS", "UBLKCP", "UBLKPF", "UTMALDG", "UTMASTG"),
    "shared loads": ("LDS", "LDSM"),
    "shared stores": ("STS", "STSM", "STAS"),
    "spill loads": ("LDL",),
    "spill stores": ("STL",),
    "atomics": ("ATOM", "ATOMG", "ATOMS", "RED", "REDG", "REDAS"),
    "fused multiply-adds": ("FFMA", "FFMA2", "HFMA2", "DFMA"),
    "other floating point": (
        *("FADD", "FADD2", "FMUL", "FMUL2", "FMNMX", "FSEL", "FSETP", "FCHK"),
        *("HADD2", "HMUL2", "HMNMX2", "HSETP2", "DADD", "DMUL", "DSETP"),
    ),
    "conversions": ("F2F", "F2FP", "F2I", "F2IP", "I2F", "I2FP", "FRND"),
    "special functions": ("MUFU",),
    "shuffles": ("SHFL", "REDUX", "CREDUX"),
    "barriers": ("BAR", "UCGABAR_ARV", "UCGABAR_WAIT", "SYNCS"),
    "branches": ("BRA", "BRX", "JMP", "JMX", "CALL", "RET"),
}
OTHER = "integer, moves and the rest"
_KIND_OF = {opcode: kind for kind, opcodes in _KINDS.items() for opcode in opcodes}
KINDS = (*_KINDS, OTHER)
_BYTES = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16, "256": 32}
_FUNCTION = re.compile(r"^\s*Function : (\S+)", re.MULTILINE)
_LINE = re.compile(r"/\*([0-9a-f]{4,})\*/\s+(?:@!?U?P[0-9T]+\s+)?([A-Z][\w.]*)([^;]*);")


def parse_sass(listing: str) -> dict[str, Code]:
    """Read what `cuobjdump -sass` prints: the code of each kernel, by its name as mangled."""
    parts = _FUNCTION.split(listing)[1:]  # name and code in turn, after what precedes the first
    return {name: _summarize(list(_instructions(text))) for name, text in zip(parts[::2], parts[1::2], strict=True)}


def _instructions(text: str) -> Iterator[_Instruction]:
    for match in _LINE.finditer(text):
        yield _Instruction(int(match[1], 16), match[2], match[3].strip())


def _summarize(code: list[_Instruction]) -> Code:
    loops = list(_loops(code))
    counts = Counter(kind for each in code if (kind := _kind(each)) is not None)
    accesses: Counter[tuple[Literal["load", "store"], int, bool]] = Counter()
    for each in code:
        if (does := _does(each)) is not None:
            accesses[does, _width(each.opcode), any(first <= each.address <= last for first, last in loops)] += 1
    return Code(
        instructions={kind: counts[kind] for kind in KINDS if counts[kind]},
        accesses=tuple(Access(does, width, number, loop) for (does, width, loop), number in sorted(accesses.items())),
        loops=len(loops),
    )


def _kind(instruction: _Instruction) -> str | None:
    name, *modifiers = instruction.opcode.split(".")
    if name in ("NOP", "EXIT"):
        return None  # padding, and the end
    if name == "BRA" and _target(instruction) == instruction.address:
        return None  # the guard behind the end of a kernel
    if name == "HADD2" and "F32" in modifiers:
        return "conversions"  # how a half becomes a float
    if name == "HFMA2" and "RZ, RZ" in instruction.operands:
        return OTHER  # how a constant is put into a register
    return _KIND_OF.get(name, OTHER)


def _does(instruction: _Instruction) -> Literal["load", "store"] | None:
    name = instruction.opcode.partition(".")[0]
    if name in ("LDG", "LD", "LDGSTS"):
        return "load"
    return "store" if name in ("STG", "ST") else None


def _width(opcode: str) -> int:
    return next((_BYTES[part] for part in opcode.split(".") if part in _BYTES), 4)


def _loops(code: Iterable[_Instruction]) -> Iterator[tuple[int, int]]:
    """The first and last address of each loop: a branch back to an earlier instruction closes it."""
    for each in code:
        target = _target(each)
        if target is not None and target < each.address:
            yield target, each.address


def _target(instruction: _Instruction) -> int | None:
    if not instruction.opcode.startswith("BRA"):
        return None
    match = re.search(r"0x([0-9a-f]+)\s*$", instruction.operands)
    return int(match[1], 16) if match else None
