"""Machine code (SASS) of CUDA kernels -> instructions by kind, and the accesses to global memory."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from fib_rmsnorm.inspection.facts import Access, Code, Costly, Direction, Loop


@dataclass(frozen=True)
class Instruction:
    """One instruction of either language."""

    address: int
    kind: str | None
    """None for an instruction that does nothing: padding, and the end."""
    access: tuple[Direction, int] | None = None
    """What it does to global memory, and the bytes of a thread."""
    target: int | None = None
    """Where it branches to."""
    costly: Costly | None = None


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
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return {name: summarize([_read(line) for line in _LINE.finditer(text)], "SASS") for name, text in pairs}


def summarize(code: Sequence[Instruction], source: Literal["SASS", "PTX"]) -> Code:
    """Count the kinds, the accesses and the loops: a branch back to an earlier instruction closes one."""
    loops = [(each.target, each.address) for each in code if each.target is not None and each.target < each.address]
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
        costly=_count_costly(code),
        source=source,
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
        stores=sum(each.access is not None and each.access[0] == "store" for each in body),
        barriers=sum(each.kind == "barriers" for each in body),
        costly=_count_costly(body),
    )


def _count_costly(code: Sequence[Instruction]) -> dict[Costly, int]:
    return dict(Counter(each.costly for each in code if each.costly is not None))


def _read(line: re.Match[str]) -> Instruction:
    address, opcode, operands = int(line[1], 16), line[2], line[3].strip()
    target = _target(opcode, operands)
    return Instruction(address, _kind(address, opcode, operands, target), _access(opcode), target, _costly(opcode))


def _costly(opcode: str) -> Costly | None:
    name = opcode.partition(".")[0]
    if name == "FCHK":
        return "divisions"  # each is preceded by the check whether it needs the slow path
    return "double precision" if name in ("DADD", "DMUL", "DFMA", "DSETP", "DMNMX") else None


def _kind(address: int, opcode: str, operands: str, target: int | None) -> str | None:
    name, *modifiers = opcode.split(".")
    if name in ("NOP", "EXIT"):
        return None
    if target == address:
        return None  # the guard behind the end of a kernel
    if name == "HADD2" and "F32" in modifiers:
        return "conversions"  # how a half becomes a float
    if name == "HFMA2" and "RZ, RZ" in operands:
        return OTHER  # how a constant is put into a register
    return _KIND_OF.get(name, OTHER)


def _access(opcode: str) -> tuple[Direction, int] | None:
    name, *modifiers = opcode.split(".")
    width = next((_BYTES[part] for part in modifiers if part in _BYTES), 4)
    if name in ("LDG", "LD", "LDGSTS"):
        return "load", width
    return ("store", width) if name in ("STG", "ST") else None


def _target(opcode: str, operands: str) -> int | None:
    if not opcode.startswith("BRA"):
        return None
    match = re.search(r"0x([0-9a-f]+)\s*$", operands)
    return int(match[1], 16) if match else None
