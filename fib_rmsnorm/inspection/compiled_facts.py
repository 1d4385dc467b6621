"""What can be read off a Solution's compiled code, in the form that a worker answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fib_rmsnorm.inspection.ahead_of_time.compilation import compile_launches, plain_names, read_codes
from fib_rmsnorm.inspection.machine_code.host_code import read_functions
from fib_rmsnorm.schema import Definition, Solution, SupportedLanguages, Workload

_NO_DISASSEMBLER = "there is no cuobjdump, which comes with the CUDA toolkit and with Triton"


def inspect_solution(
    solution: Solution, definition: Definition, workloads: Sequence[Workload], arch: str, cache: Path
) -> dict[str, Any]:
    """Compile, disassemble and call a Solution with nothing launched. Raises what `compile_launches` raises."""
    compiled = compile_launches(solution, definition, workloads, arch, cache)
    codes = read_codes(compiled)
    notes = list(compiled.notes)
    if compiled.kernels and not any(codes):
        notes.append(f"no code: {_NO_DISASSEMBLER}")
    if any(code and code.source == "PTX" for code in codes):
        notes.append(f"read from PTX, before registers are allocated: {_NO_DISASSEMBLER}")
    if not compiled.kernels and solution.spec.language is not SupportedLanguages.CPP:
        notes.append("the binary holds no kernels")
    functions = None
    if solution.spec.language is SupportedLanguages.CPP and compiled.binary is not None:
        functions = read_functions(compiled.binary)
        if functions is None:
            notes.append("no objdump to read the machine code with: apt-get install binutils")
    return {
        "kernels": [
            {
                "kernel": name,
                "arch": kernel.arch,
                "registers": kernel.registers,
                "spill_bytes": kernel.spill_bytes,
                "shared_bytes": kernel.shared_bytes,
                "code": asdict(code) if code else None,
            }
            for kernel, name, code in zip(compiled.kernels, plain_names(compiled.kernels), codes, strict=True)
        ],
        "launches": [[asdict(launch) for launch in launches] for launches in compiled.launches],
        "functions": [asdict(function) for function in functions or []],
        "notes": notes,
    }
