"""What is asked of a process that compiles, and what it answers. Compilers run code of the Solution."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal

from pydantic import BaseModel

from fib_rmsnorm.inspection.facts import HostFunction, InspectedKernel, Kernel, Launch
from fib_rmsnorm.sandbox.asking import Request
from fib_rmsnorm.schema import CheckedDefinition, Solution, Workload


class CompileRequest(Request):
    """What to compile, for which GPU architecture and Workloads."""

    doing: ClassVar[str] = "compiling"
    definition: CheckedDefinition
    solution: Solution
    workloads: list[Workload]
    arch: str
    cache: Path


class Compile(CompileRequest):
    """Compile the solution's kernels, without keeping them."""

    do: Literal["compile"] = "compile"


class Inspect(CompileRequest):
    """Compile the solution's kernels, disassemble them, and see how it launches."""

    do: Literal["inspect"] = "inspect"


class Compiled(BaseModel):
    """The solution is compiled; these are its GPU kernels."""

    kernels: tuple[Kernel, ...]


class Inspected(BaseModel):
    """The solution is compiled and disassembled."""

    kernels: tuple[InspectedKernel, ...]
    launches: tuple[tuple[Launch, ...], ...]
    """For each Workload, in their order."""
    functions: tuple[HostFunction, ...]
    notes: tuple[str, ...]
