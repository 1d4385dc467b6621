"""Machine code of C++ functions -> the vectors they work on and their loops, as far as objdump tells."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import networkx

from fib_rmsnorm.inspection.facts import HostFunction, HostLoop
from fib_rmsnorm.inspection.machine_code.host_blocks import (
    HostInstruction,
    InnerLoop,
    find_inner_loops,
    is_on_every_pass,
    name_callee,
    part_blocks,
)

_HEADER = re.compile(r"^[0-9a-f]+ <(.+)>:$")
_LINE = re.compile(r"^\s+([0-9a-f]+):\s+([a-z][\w.]*)\s*(.*)$")
_X86_WIDTHS = {"x": 16, "y": 32, "z": 64}
_LIBRARIES = re.compile(r"^(std|tvm|__gnu_cxx|void std|void tvm|DL|TVMFFI)\b")
_ARM_VECTOR = re.compile(r"\b[qv]\d+")
# x86 names what it computes with at the end, p for packed and s for scalar; ARM by its registers.
_X86 = re.compile(r"v?(?P<what>add|sub|mul|div|sqrt|fn?m(?:add|sub|addsub|subadd)\d*)(?P<form>[ps])[sdh]")
_ARM = re.compile(r"f(?P<what>add|sub|mul|div|sqrt|n?m(?:add|sub)|ml[as])")
# Arithmetic on packed floats tells a kernel from code in which the compiler moves structures about by vectors.
_ARITHMETIC = re.compile(
    r"v?(add|sub|mul|div|fn?m(add|sub)\d*)p[sd]|v?cvt\w*p[sdh]\w*|f(add|mul|mla|mls|cvtl2?|cvtn2?)"
)


def read_functions(library: Path) -> list[HostFunction]:
    """The functions of a library that compute with vectors or in loops, the widest first; none without objdump."""
    if shutil.which("objdump") is None:
        return []
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
    isa = {64: "AVX-512", 32: "AVX2"}.get(widest, "AVX" if is_avx else "SSE2")
    if not any("%" in each.operands for each in lines):
        isa = "NEON"
    return HostFunction(
        name=shorten(name),
        isa=isa if is_arithmetic else "",
        vector_bytes=widest if is_arithmetic else 0,
        instructions=dict(counts.most_common()),
        loops=loops,
    )


def _width(operands: str) -> int:
    """The bytes of the widest vector register; 0 without one."""
    if letters := re.findall(r"%([xyz])mm", operands):
        return max(_X86_WIDTHS[letter] for letter in letters)
    return 16 if "%" not in operands and _ARM_VECTOR.search(operands) else 0


def _kinds(opcode: str, operands: str) -> Iterator[str]:
    """What an instruction does: on x86 one may both load and compute, and objdump writes the destination last."""
    if "%" in operands:
        writes = operands.rstrip().endswith(")")
        reads = "(" in operands and not writes
    else:
        reads, writes = opcode.startswith("ld"), opcode.startswith("st")
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


def read_loops(lines: Sequence[HostInstruction]) -> tuple[HostLoop, ...]:
    """The inner loops of a function that compute with floating-point numbers, in the order of the code."""
    if not lines:
        return ()
    blocks, graph = part_blocks(lines)
    loops = [_describe(loop, blocks, graph) for loop in sorted(find_inner_loops(graph))]
    return tuple(each for each in loops if each.vector or each.scalar)


def _describe(loop: InnerLoop, blocks: list[list[HostInstruction]], graph: networkx.DiGraph) -> HostLoop:
    body = [line for block in sorted(loop.body) for line in blocks[block]]
    # The functions without which no pass is. Rare cases call others, such as sqrtf, which tells negative numbers.
    callers: dict[str, set[int]] = {}
    for block in loop.body:
        for name in filter(None, map(name_callee, blocks[block])):
            callers.setdefault(_without_arguments(shorten(name)), set()).add(block)
    found = [(each, arithmetic) for each in body if (arithmetic := _arithmetic(each))]
    kinds = [what for _, (what, _) in found]
    of_vectors = [what for _, (what, is_vector) in found if is_vector]
    return HostLoop(
        instructions=len(body),
        vector_bytes=max((_width(each.operands) or 16 for each, (_, is_vector) in found if is_vector), default=0),
        vector=sum(is_vector for _, (_, is_vector) in found),
        scalar=sum(not is_vector for _, (_, is_vector) in found),
        fused=kinds.count("fused"),
        multiplies_and_adds=(of_vectors.count("mul"), of_vectors.count("add") + of_vectors.count("sub")),
        divisions=kinds.count("div") + kinds.count("sqrt"),
        calls=tuple(sorted(name for name, calling in callers.items() if is_on_every_pass(loop, calling, graph))),
    )


def _arithmetic(line: HostInstruction) -> tuple[str, bool] | None:
    """What an instruction computes, and whether with vectors; None if it computes no floating-point number."""
    if match := _X86.fullmatch(line.opcode):
        is_vector = match["form"] == "p"
    elif "%" not in line.operands and (match := _ARM.fullmatch(line.opcode)):
        is_vector = re.search(r"\bv\d", line.operands) is not None
    else:
        return None
    return match["what"] if match["what"] in ("add", "sub", "mul", "div", "sqrt") else "fused", is_vector


def shorten(name: str) -> str:
    """A function's name without its result, its parameters and namespaces that have no name."""
    name = name.replace("(anonymous namespace)::", "").partition("(")[0]
    begin = depth = 0
    for at, letter in enumerate(name):
        depth += (letter == "<") - (letter == ">")
        if letter == " " and not depth and not name[:at].endswith("operator"):
            begin = at + 1
    return name[begin:]


def _without_arguments(name: str) -> str:
    """The name of a template, of which a function calls one instance for each of its own types."""
    while (shorter := re.sub(r"<[^<>]*>", "", name)) != name:
        name = shorter
    return name
