"""Machine code of C++ functions -> the vectors they work on and their loops, as far as objdump tells."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from fib_rmsnorm.inspection.facts import HostFunction
from fib_rmsnorm.inspection.machine_code.host_blocks import HostInstruction
from fib_rmsnorm.inspection.machine_code.host_loops import read_loops, shorten

_HEADER = re.compile(r"^[0-9a-f]+ <(.+)>:$")
_LINE = re.compile(r"^\s+([0-9a-f]+):\s+([a-z][\w.]*)\s*(.*)$")
_X86 = re.compile(r"%([xyz])mm\d")
_X86_WIDTHS = {"x": 16, "y": 32, "z": 64}
_LIBRARIES = re.compile(r"^(std|tvm|__gnu_cxx|void std|void tvm|DL|TVMFFI)\b")
_ARM = re.compile(r"\b[qv]\d+")
# Arithmetic on packed floats tells a kernel from code in which the compiler moves structures about by vectors.
_ARITHMETIC = re.compile(
    r"v?(add|sub|mul|div|fn?m(add|sub)\d*)p[sd]|v?cvt\w*p[sdh]\w*|f(add|mul|mla|mls|cvtl2?|cvtn2?)"
)


def read_functions(library: Path) -> list[HostFunction] | None:
    """The functions of a library that compute with vectors or in loops, the widest first; None without objdump."""
    if shutil.which("objdump") is None:
        return None
    command = ["objdump", "-d", "-C", "--no-show-raw-insn", str(library)]
    listing = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    found = [_summarize(name, lines) for name, lines in _functions(listing) if not _LIBRARIES.match(name)]
    return sorted(filter(None, found), key=lambda each: (-each.vector_bytes, each.name))


def _functions(listing: str) -> Iterator[tuple[str, list[HostInstruction]]]:
    name = ""
    lines: list[HostInstruction] = []
    for line in listing.splitlines():
        if header := _HEADER.match(line):
            yield name, lines
            name, lines = header[1], []
        elif match := _LINE.match(line):
            lines.append(HostInstruction(int(match[1], 16), match[2], match[3]))
    yield name, lines


def _summarize(name: str, lines: list[HostInstruction]) -> HostFunction | None:
    counts: Counter[str] = Counter()
    widest = 0
    is_avx = is_arithmetic = False
    for _, opcode, operands in lines:
        if opcode.startswith("prefetch") or opcode == "prfm":
            counts["prefetches"] += 1
        width = _width(operands)
        if not width or opcode.endswith(("ss", "sd")):  # of one number
            continue
        widest = max(widest, width)
        is_avx |= opcode.startswith("v")
        is_arithmetic |= _ARITHMETIC.fullmatch(opcode) is not None
        counts.update(_kinds(opcode, operands))
    loops = read_loops(lines)
    if not is_arithmetic and not loops:
        return None
    isa = _isa(widest, is_x86=any("%" in each.operands for each in lines), is_avx=is_avx)
    return HostFunction(
        name=shorten(name),
        isa=isa if is_arithmetic else "",
        vector_bytes=widest if is_arithmetic else 0,
        instructions=dict(counts.most_common()),
        loops=loops,
    )


def _width(operands: str) -> int:
    if letters := _X86.findall(operands):
        return max(_X86_WIDTHS[letter] for letter in letters)
    return 16 if "%" not in operands and _ARM.search(operands) else 0


def _kinds(opcode: str, operands: str) -> Iterator[str]:
    """What an instruction does: on x86 one may both load and compute."""
    reads, writes = _accesses(opcode, operands)
    if writes:
        yield "streaming stores" if "movnt" in opcode or opcode == "stnp" else "vector stores"
    if reads:
        yield "vector loads"
    if "fmadd" in opcode or opcode in ("fmla", "fmls"):
        yield "fused multiply-adds"
    elif "cvt" in opcode:
        yield "conversions"
    elif not reads and not writes:
        yield "other vector instructions"


def _accesses(opcode: str, operands: str) -> tuple[bool, bool]:
    """Whether it reads and whether it writes memory; objdump writes the destination last on x86."""
    if "%" not in operands:
        return opcode.startswith("ld"), opcode.startswith("st")
    writes = operands.rstrip().endswith(")")
    return "(" in operands and not writes, writes


def _isa(widest: int, *, is_x86: bool, is_avx: bool) -> str:
    if not is_x86:
        return "NEON"
    return {64: "AVX-512", 32: "AVX2"}.get(widest, "AVX" if is_avx else "SSE2")
