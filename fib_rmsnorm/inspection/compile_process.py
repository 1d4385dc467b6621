"""The process that compiles a Solution, for a GPU that need not be there, and describes the result."""

from __future__ import annotations

from fib_rmsnorm.building import BuildError
from fib_rmsnorm.inspection.ahead_of_time.compilation import compile_kernels
from fib_rmsnorm.inspection.compile_messages import Compile, Compiled, Inspect, Inspected
from fib_rmsnorm.inspection.compiled_facts import collect_facts
from fib_rmsnorm.sandbox.channel import Channel, Message, RefusalError, serve


def compile_solution(message: Message) -> Compiled:
    """Compile the solution's kernels for a named GPU architecture, without keeping them."""
    asked = Compile.model_validate(message)
    try:
        kernels = compile_kernels(asked.solution, asked.definition, asked.workloads, asked.arch, asked.cache)
    except BuildError as error:
        raise RefusalError("COMPILE_ERROR", str(error)) from None
    return Compiled(kernels=tuple(kernels))


def inspect(message: Message) -> Inspected:
    """Compile the solution's kernels for a named GPU architecture, disassemble them, and see how it launches."""
    asked = Inspect.model_validate(message)
    try:
        return collect_facts(asked.solution, asked.definition, asked.workloads, asked.arch, asked.cache)
    except BuildError as error:
        raise RefusalError("COMPILE_ERROR", str(error)) from None


def main(channel: Channel, _: int) -> None:
    """Serve until the channel closes."""
    serve(channel, {"compile": compile_solution, "inspect": inspect})
