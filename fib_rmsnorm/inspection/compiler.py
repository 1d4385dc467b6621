"""Compiling from the scheduler's side: each Solution in a process of its own."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from fib_rmsnorm.building.solution_cache import cache_variables, solution_cache
from fib_rmsnorm.building.toolchain import toolchain_paths
from fib_rmsnorm.evaluation.run_config import RunConfig
from fib_rmsnorm.evaluation.worker_pool import EvaluationFailedError, TimeBudget, ask_worker
from fib_rmsnorm.inspection import COMPILER
from fib_rmsnorm.inspection.compile_messages import Compile, Compiled, CompileRequest, Inspect, Inspected
from fib_rmsnorm.inspection.facts import Kernel
from fib_rmsnorm.languages import LANGUAGES
from fib_rmsnorm.machine.dependencies import missing_dependency
from fib_rmsnorm.registry import generate_workloads
from fib_rmsnorm.sandbox.asking import Answer
from fib_rmsnorm.sandbox.fork_server import ForkServer
from fib_rmsnorm.schema import Definition, Solution, Workload

# Launch shapes follow the batch: these four meet the ones that matter.
_BATCH_SIZES = (1, 512, 4096, 65536)


@dataclass(frozen=True)
class Compilation:
    """The outcome of compiling one Solution."""

    solution: Solution
    outcome: Literal["built", "failed", "skipped"]
    seconds: float
    message: str = ""
    kernels: tuple[Kernel, ...] = ()


def compile_solutions(
    fork_server: ForkServer,
    jobs: Iterable[tuple[Definition, Solution]],
    arch: str | None,
    config: RunConfig,
) -> Generator[Compilation]:
    """Build each Solution, its kernels for the GPU architecture `arch`; None means a machine without a GPU."""
    for definition, solution in jobs:
        if LANGUAGES[solution.spec.language.value].compiles_for_gpus and arch is None:
            yield Compilation(solution, "skipped", 0.0, "no GPU here: name an architecture, such as --arch sm_90")
            continue
        if missing := missing_dependency(solution):
            yield Compilation(solution, "skipped", 0.0, missing)
            continue
        started = time.monotonic()
        try:
            kernels = _compile(fork_server, definition, solution, arch or "sm_90", config)
        except EvaluationFailedError as failure:
            yield Compilation(solution, "failed", time.monotonic() - started, str(failure))
        else:
            yield Compilation(solution, "built", time.monotonic() - started, kernels=kernels)


def _compile(
    fork_server: ForkServer, definition: Definition, solution: Solution, arch: str, config: RunConfig
) -> tuple[Kernel, ...]:
    workloads = generate_workloads(definition, _BATCH_SIZES)
    request = Compile(
        definition=definition, solution=solution, workloads=workloads, arch=arch, cache=solution_cache(solution)
    )
    return _ask_once(fork_server, request, Compiled, config).kernels


def inspect_solution(
    fork_server: ForkServer,
    definition: Definition,
    solution: Solution,
    workloads: Sequence[Workload],
    arch: str,
    config: RunConfig,
) -> Inspected:
    """Compile and disassemble a Solution, and see what it launches.

    Raises EvaluationFailedError with the compiler's output.
    """
    request = Inspect(
        definition=definition, solution=solution, workloads=list(workloads), arch=arch, cache=solution_cache(solution)
    )
    return _ask_once(fork_server, request, Inspected, config)


def _ask_once(fork_server: ForkServer, request: CompileRequest, kind: type[Answer], config: RunConfig) -> Answer:
    """Ask a process that lives for this one question. Raises EvaluationFailedError, with what the process wrote."""
    process = fork_server.spawn(
        COMPILER, cache_variables(request.cache), readable=toolchain_paths(), writable=[request.cache]
    )
    try:
        return ask_worker(process, request, kind, TimeBudget(config.timeout_s), config)
    except EvaluationFailedError as failure:
        text = "\n".join(filter(None, [str(failure), process.take_log().strip()]))
        raise EvaluationFailedError(failure.status, text) from None
    finally:
        process.kill()
