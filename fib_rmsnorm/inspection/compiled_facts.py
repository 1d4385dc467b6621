"""What can be read off a Solution's compiled code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from fib_rmsnorm.inspection.ahead_of_time.compilation import (
    CompiledSolution,
    compile_launches,
    plain_names,
    read_codes,
)
from fib_rmsnorm.inspection.compile_messages import Inspected
from fib_rmsnorm.inspection.facts import Code, HostFunction, InspectedKernel
from fib_rmsnorm.inspection.machine_code.host_code import read_functions
from fib_rmsnorm.inspection.machine_code.resources import find_cuobjdump
from fib_rmsnorm.languages import LANGUAGES
from fib_rmsnorm.schema import Definition, Solution, Workload


def collect_facts(
    solution: Solution, definition: Definition, workloads: Sequence[Workload], arch: str, cache: Path
) -> Inspected:
    """Compile, disassemble and call a Solution with nothing launched. Raises what `compile_launches` raises."""
    compiled = compile_launches(solution, definition, workloads, arch, cache)
    codes = read_codes(compiled)
    functions: list[HostFunction] | None = []
    if LANGUAGES[solution.spec.language.value].runs_on_host and compiled.binary is not None:
        functions = read_functions(compiled.binary)
    names = plain_names(compiled.kernels)
    return Inspected(
        kernels=tuple(
            InspectedKernel(**{**kernel.model_dump(), "kernel": name}, code=code)
            for kernel, name, code in zip(compiled.kernels, names, codes, strict=True)
        ),
        launches=tuple(map(tuple, compiled.launches)),
        functions=tuple(functions or ()),
        notes=tuple(_notes(solution, compiled, codes, functions)),
    )


def _notes(
    solution: Solution, compiled: CompiledSolution, codes: Sequence[Code | None], functions: list[HostFunction] | None
) -> Iterator[str]:
    yield from compiled.notes
    why = "cuobjdump cannot read them"
    if find_cuobjdump() is None:
        why = "cuobjdump is missing; it comes with the CUDA toolkit and with Triton"
    if compiled.kernels and not any(codes):
        yield f"the instructions are unknown: {why}"
    if any(code and code.source == "PTX" for code in codes):
        yield f"the instructions are PTX, before registers are allocated: {why}"
    if not compiled.kernels and not LANGUAGES[solution.spec.language.value].runs_on_host:
        yield "the binary holds no kernels"
    if functions is None:
        yield "objdump, which reads the machine code, is missing: apt-get install binutils"
