"""Compiling from the scheduler's side: each Solution in a process of its own."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from fib_rmsnorm.evaluation.answers import Answer, Compiled, Inspected
from fib_rmsnorm.evaluation.building.cache import cache_folder
from fib_rmsnorm.evaluation.channel import Message
from fib_rmsnorm.evaluation.dependencies import missing_dependency
from fib_rmsnorm.evaluation.spawning import Zygote
from fib_rmsnorm.evaluation.workers import Allowance, FailedError, Terms, ask_process
from fib_rmsnorm.registry import generate_workloads
from fib_rmsnorm.schema import Definition, Solution, SupportedLanguages, Workload

# Launch shapes follow the batch: these four meet the ones that matter.
_BATCH_SIZES = (1, 512, 4096, 65536)
_GPU_ONLY = (SupportedLanguages.CUDA, SupportedLanguages.TRITON, SupportedLanguages.TILELANG)


@dataclass(frozen=True)
class Compilation:
    """How compiling one Solution went."""

    solution: Solution
    outcome: Literal["built", "failed", "skipped"]
    seconds: float
    message: str = ""
    kernels: tuple[Compiled.Kernel, ...] = ()


def compile_solutions(
    zygote: Zygote,
    jobs: Iterable[tuple[Definition, Solution]],
    arch: str | None,
    terms: Terms,
) -> Generator[Compilation]:
    """Build each Solution, its kernels for the GPU architecture `arch`; None is a machine without a GPU."""
    for definition, solution in jobs:
        if solution.spec.language in _GPU_ONLY and arch is None:
            yield Compilation(solution, "skipped", 0.0, "no GPU here: name an architecture, such as --arch sm_90")
            continue
        if missing := missing_dependency(solution):
            yield Compilation(solution, "skipped", 0.0, missing)
            continue
        started = time.monotonic()
        try:
            kernels = _compile(zygote, definition, solution, arch or "sm_90", terms)
        except FailedError as failure:
            yield Compilation(solution, "failed", time.monotonic() - started, str(failure))
        else:
            yield Compilation(solution, "built", time.monotonic() - started, kernels=kernels)


def _compile(
    zygote: Zygote, definition: Definition, solution: Solution, arch: str, terms: Terms
) -> tuple[Compiled.Kernel, ...]:
    workloads = generate_workloads(definition, _BATCH_SIZES)
    request = _make_request("compile", definition, solution, workloads, arch)
    return tuple(_ask_once(zygote, request, Compiled, terms).kernels)


def inspect_solution(
    zygote: Zygote, definition: Definition, solution: Solution, workloads: Sequence[Workload], arch: str, terms: Terms
) -> Inspected:
    """Compile and disassemble a Solution, and see what it launches. Raises FailedError with the compiler's output."""
    return _ask_once(zygote, _make_request("inspect", definition, solution, workloads, arch), Inspected, terms)


def _make_request(
    do: str, definition: Definition, solution: Solution, workloads: Sequence[Workload], arch: str
) -> Message:
    """What to ask a worker that compiles."""
    return {
        "do": do,
        "definition": definition.model_dump(mode="json"),
        "solution": solution.model_dump(mode="json"),
        "workloads": [workload.model_dump(mode="json") for workload in workloads],
        "arch": arch,
        "cache": str(cache_folder()),
    }


def _ask_once(zygote: Zygote, request: Message, kind: type[Answer], terms: Terms) -> Answer:
    """Ask a process that lives for this one question. Raises FailedError, with what the process wrote."""
    process = zygote.spawn("worker")
    try:
        return ask_process(process, request, kind, Allowance(terms.timeout_s), terms)
    except FailedError as failure:
        text = "\n".join(filter(None, [str(failure), process.take_log().strip()]))
        raise FailedError(failure.status, text) from None
    finally:
        process.kill()
