"""The CUDA kernels of a binary: their resources, instructions by kind, and accesses to global memory, by cuobjdump."""

import importlib.util
import re
import subprocess
import tempfile
from pathlib import Path

from fib_rmsnorm.building.native import find_cuda_tool
from fib_rmsnorm.inspection.facts import Code, Direction, Kernel
from fib_rmsnorm.inspection.instructions import OTHER, Instruction, summarize
from fib_rmsnorm.machine.gpu_models import capability_of

_RESERVED_SHARED_BYTES = 1024  # of every block from Hopper on; cubins count them, ptxas does not

# By the first part of the opcode.
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
_KIND_OF = {opcode: kind for kind, opcodes in _KINDS.items() for opcode in opcodes}
_BYTES = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16, "256": 32}
_FUNCTION = re.compile(r"^\s*Function : (\S+)", re.MULTILINE)
_LINE = re.compile(r"/\*([0-9a-f]{4,})\*/\s+(?:@!?U?P[0-9T]+\s+)?([A-Z][\w.]*)([^;]*);")
_RESOURCES = re.compile(
    r"Function (?P<kernel>\S+):\s+REG:(?P<registers>\d+) STACK:(?P<stack>\d+) "
    r"SHARED:(?P<shared>\d+) LOCAL:(?P<local>\d+)"
)


def read_kernels(binary: Path | bytes, arch: str) -> list[Kernel]:
    """Read the kernels of a cubin, or of a library with some in it, by their names as mangled.

    Shared memory is the static part. Empty where no cuobjdump is found, or it is too old for the binary.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = binary if isinstance(binary, Path) else Path(folder, "kernel.cubin")
        if isinstance(binary, bytes):
            path.write_bytes(binary)
        resources, listing = dump("-res-usage", path), dump("-sass", path)
    parts = _FUNCTION.split(listing)[1:]  # name and code in turn, after what precedes the first
    codes = {name: _read(text) for name, text in zip(parts[::2], parts[1::2], strict=True)}
    reserved = _RESERVED_SHARED_BYTES if capability_of(arch) >= (9, 0) else 0
    return [
        Kernel(
            kernel=match["kernel"],
            arch=arch,
            registers=int(match["registers"]),
            spill_bytes=int(match["stack"]) + int(match["local"]),
            shared_bytes=max(0, int(match["shared"]) - reserved),
            code=codes.get(match["kernel"]),
        )
        for match in _RESOURCES.finditer(resources)
    ]


def dump(what: str, path: Path) -> str:
    """The output of cuobjdump for a binary; empty if cuobjdump is missing or too old for it."""
    cuobjdump = find_cuobjdump()
    if cuobjdump is None:
        return ""
    command = [str(cuobjdump), what, str(path)]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    return run.stdout if run.returncode == 0 else ""


def find_cuobjdump() -> Path | None:
    """CUDA's disassembler: the toolkit's, or the one that Triton brings."""
    triton = importlib.util.find_spec("triton")
    folders = (triton.submodule_search_locations or ()) if triton else ()
    return find_cuda_tool("cuobjdump", *(Path(folder, "backends/nvidia/bin/cuobjdump") for folder in folders))


def _read(text: str) -> Code:
    """Read a kernel's code. A branch back to an earlier instruction closes a loop."""
    code, loops = [], []
    for line in _LINE.finditer(text):
        address, opcode, operands = int(line[1], 16), line[2], line[3].strip()
        match = re.search(r"0x([0-9a-f]+)\s*$", operands) if opcode.startswith("BRA") else None
        target = int(match[1], 16) if match else None
        code.append(Instruction(address, _kind(address, opcode, operands, target), _access(opcode)))
        if target is not None and target < address:
            loops.append((target, address))
    return summarize(code, loops)


def _kind(address: int, opcode: str, operands: str, target: int | None) -> str | None:
    name, *modifiers = opcode.split(".")
    if name in ("NOP", "EXIT") or target == address:  # the latter is the guard behind the end of a kernel
        return None
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
