"""PTX of CUDA kernels -> instructions by kind, for use where no disassembler is found.

PTX is what a compiler hands to ptxas: accesses have the widths that they will have, but registers, spills and the
scheduling are not decided yet, and what ptxas merges or removes still counts.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from fib_rmsnorm.building.native import find_cuda_home
from fib_rmsnorm.inspection.facts import Code, Costly, Direction
from fib_rmsnorm.inspection.machine_code.disassembly import OTHER, Instruction, summarize

_ENTRY = re.compile(r"^\s*(?:\.visible\s+)?\.entry\s+([\w$]+)", re.MULTILINE)
_INSTRUCTION = re.compile(r"^\s*\{?\s*(?:@!?%p\w+\s+)?([a-z][\w]*(?:[.:]+\w+)*)\s*(.*?);?\s*(?://.*)?$")
_LABEL = re.compile(r"^\s*([\w$]+):")
_WIDTH = re.compile(r"\.[busf](\d+)$")
_KIND_OF = {
    **dict.fromkeys(("rsqrt", "sqrt", "rcp", "ex2", "lg2", "sin", "cos", "tanh"), "special functions"),
    **dict.fromkeys(("shfl", "redux"), "shuffles"),
    **dict.fromkeys(("bar", "barrier"), "barriers"),
    **dict.fromkeys(("atom", "red"), "atomics"),
    **{"bra": "branches", "cvt": "conversions", "mov": OTHER},
}
_FLOAT = re.compile(r"\.(f16|f16x2|bf16|bf16x2|f32|f32x2|f64)$")
_SPACES = {"global": "global", "shared": "shared", "local": "spill"}


def parse_ptx(text: str) -> dict[str, Code]:
    """The code of each kernel, by its name as mangled."""
    parts = _ENTRY.split(text)[1:]  # name and code in turn, after what precedes the first
    return {
        name: summarize(list(_instructions(body)), "PTX") for name, body in zip(parts[::2], parts[1::2], strict=True)
    }


def _instructions(text: str) -> Iterator[Instruction]:
    """The instructions, with their line numbers for addresses."""
    lines = text[text.find("{") + 1 :].splitlines()
    labels = {match[1]: number for number, line in enumerate(lines) if (match := _LABEL.match(line))}
    for number, line in enumerate(lines):
        match = _INSTRUCTION.match(line)
        if match is None or _LABEL.match(line):
            continue
        opcode, operands = match[1], match[2]
        target = labels.get(operands.rstrip("; ")) if opcode.startswith("bra") else None
        yield Instruction(number, _kind(opcode), _access(opcode), target, _costly(opcode))


def _kind(opcode: str) -> str | None:
    name, *modifiers = re.split(r"[.:]+", opcode)
    if name in ("ret", "exit"):
        return None
    if name in ("ld", "st"):
        space = next((_SPACES[part] for part in modifiers if part in _SPACES), None)
        return f"{space} {'loads' if name == 'ld' else 'stores'}" if space else OTHER
    if name == "cp" and "async" in modifiers:
        return "asynchronous copies"
    if name in _KIND_OF or not _FLOAT.search(opcode):
        return _KIND_OF.get(name, OTHER)
    return "fused multiply-adds" if name == "fma" else "other floating point"


def _costly(opcode: str) -> Costly | None:
    if opcode.startswith(("div.rn.f", "rcp.rn.f")):
        return "divisions"
    is_arithmetic = opcode.partition(".")[0] in ("add", "sub", "mul", "fma", "div", "sqrt", "rcp", "setp")
    return "double precision" if is_arithmetic and opcode.endswith(".f64") else None


def _access(opcode: str) -> tuple[Direction, int] | None:
    name, *modifiers = re.split(r"[.:]+", opcode)
    if name not in ("ld", "st") or "global" not in modifiers:
        return None
    bits = _WIDTH.search(opcode)
    elements = next((int(part[1:]) for part in modifiers if re.fullmatch(r"v\d", part)), 1)
    return "load" if name == "ld" else "store", elements * int(bits[1]) // 8 if bits else 4


def compile_ptx(sources: Path, arch: str) -> str:
    """What nvcc makes of the `.cu` files in a folder; nothing if that fails."""
    from tvm_ffi.libinfo import include_paths

    home = find_cuda_home()
    if home is None:
        return ""
    includes = [f"-I{path}" for path in (sources, *include_paths())]
    flags = ["-ptx", f"-arch={arch}", "-std=c++17", "--expt-relaxed-constexpr", *includes]
    made = []
    for path in sorted(sources.rglob("*.cu")):
        command = [str(home / "bin" / "nvcc"), *flags, str(path), "-o", "-"]
        made.append(subprocess.run(command, capture_output=True, text=True, check=False, timeout=300).stdout)
    return "\n".join(made)
