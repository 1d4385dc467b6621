"""What is asked of a process that compiles, and what it answers. Compilers run code of the Solution."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal

from pydantic import BaseModel, Field, PositiveInt

from fib_rmsnorm.sandbox.asking import Request
from fib_rmsnorm.schema import Definition, Solution, Workload


class CompileRequest(Request):
    """What to compile, for which GPU architecture and Workloads."""

    doing: ClassVar[str] = "compiling"
    definition: Definition
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

    class Kernel(BaseModel):
        """What one kernel asks of the GPU."""

        kernel: str
        arch: str
        registers: int | None
        spill_bytes: int | None
        shared_bytes: int | None

    kernels: list[Kernel]


class Inspected(BaseModel):
    """The solution is compiled and disassembled: its GPU kernels or its functions on the host, and its launches."""

    class Access(BaseModel):
        """Equal instructions that read or write global memory."""

        does: Literal["load", "store"]
        bytes: int
        count: int
        in_loop: bool

    class Code(BaseModel):
        """One kernel's instructions, by kind."""

        instructions: dict[str, int]
        accesses: list[Inspected.Access]
        loops: int
        source: Literal["SASS", "PTX"]

    class Kernel(Compiled.Kernel):
        """A kernel with its code, where a disassembler was found."""

        code: Inspected.Code | None

    class Launch(BaseModel):
        """One launch of a kernel, by its number."""

        kernel: int = Field(ge=0)
        grid: tuple[PositiveInt, PositiveInt, PositiveInt]
        block: tuple[PositiveInt, PositiveInt, PositiveInt]
        dynamic_shared_bytes: int = Field(ge=0)

    class Function(BaseModel):
        """A function of the host that works on vectors."""

        name: str
        isa: str
        vector_bytes: int
        instructions: dict[str, int]

    kernels: list[Kernel]
    launches: list[list[Launch]]
    functions: list[Function]
    notes: list[str]
