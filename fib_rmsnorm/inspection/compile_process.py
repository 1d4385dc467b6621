"""The process that compiles a Solution, for a GPU that need not be there, and describes the result."""

from __future__ import annotations

from pathlib import Path

from fib_rmsnorm.building import BuildError
from fib_rmsnorm.inspection.ahead_of_time.compilation import compile_kernels
from fib_rmsnorm.inspection.compiled_facts import inspect_solution
from fib_rmsnorm.sandbox.channel import Channel, Message, RefusalError, serve
from fib_rmsnorm.schema import Definition, Solution, Workload


def compile_solution(message: Message) -> Message:
    """Compile the solution's kernels for a named GPU architecture, without keeping them."""
    try:
        kernels = compile_kernels(*_read(message))
    except BuildError as error:
        raise RefusalError("COMPILE_ERROR", str(error)) from None
    keys = ("kernel", "arch", "registers", "spill_bytes", "shared_bytes")
    return {"kernels": [{key: getattr(kernel, key) for key in keys} for kernel in kernels]}


def inspect(message: Message) -> Message:
    """Compile the solution's kernels for a named GPU architecture, disassemble them, and see how it launches."""
    try:
        return inspect_solution(*_read(message))
    except BuildError as error:
        raise RefusalError("COMPILE_ERROR", str(error)) from None


def _read(message: Message) -> tuple[Solution, Definition, list[Workload], str, Path]:
    return (
        Solution.model_validate(message["solution"]),
        Definition.model_validate(message["definition"]),
        [Workload.model_validate(workload) for workload in message["workloads"]],
        message["arch"],
        Path(message["cache"]),
    )


def main(channel: Channel, _: int) -> None:
    """Serve until the channel closes."""
    serve(channel, {"compile": compile_solution, "inspect": inspect})
