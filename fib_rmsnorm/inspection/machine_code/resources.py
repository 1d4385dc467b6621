"""The resources of a compiled CUDA kernel, read from its binary or from the compiler's report."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from fib_rmsnorm.building.native import find_cuda_home
from fib_rmsnorm.inspection.facts import Code, KernelBinary
from fib_rmsnorm.inspection.machine_code.disassembly import parse_sass

RESERVED_SHARED_BYTES = 1024  # of every block from Hopper on; cubins count them, ptxas does not


def read_cubin_resources(cubin: bytes, arch: str) -> list[KernelBinary]:
    """Read the resources of each kernel in a cubin; shared memory is the static part.

    Empty where no cuobjdump is found: it comes with the CUDA toolkit, and with Triton.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernel.cubin")
        path.write_bytes(cubin)
        report = _dump("-res-usage", path)
    return [
        KernelBinary(
            kernel=match["kernel"],
            arch=arch,
            registers=int(match["registers"]),
            spill_bytes=int(match["stack"]) + int(match["local"]),
            shared_bytes=_without_reserved(int(match["shared"]), arch),
            binary=cubin,
        )
        for match in _CUBIN_KERNEL.finditer(report)
    ]


def read_code(binary: Path | bytes) -> dict[str, Code]:
    """Disassemble a cubin, or a library with one in it: the code of each kernel, by its name as mangled.

    Empty where no cuobjdump is found.
    """
    if isinstance(binary, Path):
        return parse_sass(_dump("-sass", binary))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernel.cubin")
        path.write_bytes(binary)
        return parse_sass(_dump("-sass", path))


def _dump(what: str, path: Path) -> str:
    """What cuobjdump prints of a binary; nothing where there is none, or it is too old for it."""
    cuobjdump = find_cuobjdump()
    if cuobjdump is None:
        return ""
    command = [str(cuobjdump), what, str(path)]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    return run.stdout if run.returncode == 0 else ""


def parse_ptxas_report(report: str) -> list[KernelBinary]:
    """Parse what `nvcc -Xptxas -v` prints: one entry for each kernel and architecture, names as mangled."""
    # Splitting at the headers leaves what precedes the first, then name, architecture and report in turn.
    parts = _PTXAS_KERNEL.split(report)[1:]
    return [
        KernelBinary(
            kernel=kernel,
            arch=arch,
            registers=_largest(_PTXAS_REGISTERS, text),
            spill_bytes=_largest(_PTXAS_LOCAL, text),
            shared_bytes=_largest(_PTXAS_SHARED, text) or 0,  # left out of the report when there is none
        )
        for kernel, arch, text in zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    ]


_CUBIN_KERNEL = re.compile(
    r"Function (?P<kernel>\S+):\s+REG:(?P<registers>\d+) STACK:(?P<stack>\d+) "
    r"SHARED:(?P<shared>\d+) LOCAL:(?P<local>\d+)"
)
_PTXAS_KERNEL = re.compile(r"Compiling entry function '([^']+)' for '([^']+)'")
_PTXAS_REGISTERS = re.compile(r"Used (\d+) registers")
_PTXAS_LOCAL = re.compile(r"(\d+) bytes (?:stack frame|spill stores|spill loads)")
_PTXAS_SHARED = re.compile(r"(\d+) bytes smem")


def _largest(pattern: re.Pattern[str], text: str) -> int | None:
    return max((int(number) for number in pattern.findall(text)), default=None)


def _without_reserved(shared_bytes: int, arch: str) -> int:
    number = re.search(r"\d+", arch)
    reserved = RESERVED_SHARED_BYTES if number is not None and int(number[0]) >= 90 else 0
    return max(0, shared_bytes - reserved)


def find_cuobjdump() -> Path | None:
    """CUDA's disassembler: the toolkit's, or the one that Triton brings."""
    return next((path for path in _candidates() if path.exists()), None)


def _candidates() -> Iterator[Path]:
    if cuda_home := find_cuda_home():
        yield cuda_home / "bin" / "cuobjdump"
    if on_path := shutil.which("cuobjdump"):
        yield Path(on_path)
    triton = importlib.util.find_spec("triton")
    for folder in (triton.submodule_search_locations or ()) if triton else ():
        yield Path(folder, "backends", "nvidia", "bin", "cuobjdump")
