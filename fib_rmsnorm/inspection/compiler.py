"""Compiling from the scheduler's side: each Solution in a process of its own."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from fib_rmsnorm.building.cache import cache_variables, solution_cache
from fib_rmsnorm.building.native import toolchain_paths
from fib_rmsnorm.evaluation.run_config import RunConfig
from fib_rmsnorm.evaluation.worker_pool import EvaluationFailedError, TimeBudget, ask_worker
from fib_rmsnorm.inspection import COMPILER
from fib_rmsnorm.inspection.facts import Compile, Compiled, Kernel
from fib_rmsnorm.languages import LANGUAGES
from fib_rmsnorm.machine.capabilities import missing_dependency
from fib_rmsnorm.machine.gpu_models import DEFAULT_ARCH
from fib_rmsnorm.registry import generate_workloads
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
        workloads = generate_workloads(definition, _BATCH_SIZES)
        started = time.monotonic()
        try:
            found = inspect_solution(
                fork_server, definition, solution, workloads, arch or DEFAULT_ARCH, config, inspects=False
            )
        except EvaluationFailedError as failure:
            yield Compilation(solution, "failed", time.monotonic() - started, str(failure))
        else:
            # An autotuner's configurations can be equal but for what they launch.
            alike = {kernel.model_dump_json(exclude={"code"}): kernel for kernel in found.kernels}
            yield Compilation(solution, "built", time.monotonic() - started, kernels=tuple(alike.values()))


def inspect_solution(
    fork_server: ForkServer,
    definition: Definition,
    solution: Solution,
    workloads: Sequence[Workload],
    arch: str,
    config: RunConfig,
    *,
    inspects: bool = True,
) -> Compiled:
    """Compile a Solution in a process of its own; with `inspects`, see what it launches, or its host code.

    Raises EvaluationFailedError with the compiler's output, and what the process wrote.
    """
    request = Compile(
        definition=definition,
        solution=solution,
        workloads=list(workloads),
        arch=arch,
        cache=solution_cache(solution),
        inspects=inspects,
    )
    process = fork_server.spawn(
        COMPILER, cache_variables(request.cache), readable=toolchain_paths(), writable=[request.cache]
    )
    try:
        return ask_worker(process, request, Compiled, TimeBudget(config.timeout_s), config)
    except EvaluationFailedError as failure:
        text = "\n".join(filter(None, [str(failure), process.take_log().strip()]))
        raise EvaluationFailedError(failure.status, text) from None
    finally:
        process.kill()
