"""`solve --build` from the scheduler's side: each Solution compiled in a process of its own."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from typing import Literal

from fib_rmsnorm.evaluation.answers import Compiled
from fib_rmsnorm.evaluation.building.cache import cache_folder
from fib_rmsnorm.evaluation.process import Zygote
from fib_rmsnorm.evaluation.workers import Allowance, FailedError, Terms, ask_process
from fib_rmsnorm.registry import generate_workloads
from fib_rmsnorm.schema import Definition, Solution, SupportedLanguages

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
    process = zygote.spawn("worker")
    request = {
        "do": "compile",
        "definition": definition.model_dump(mode="json"),
        "solution": solution.model_dump(mode="json"),
        "workloads": [w.model_dump(mode="json") for w in generate_workloads(definition, _BATCH_SIZES)],
        "arch": arch,
        "cache": str(cache_folder()),
    }
    try:
        return tuple(ask_process(process, request, Compiled, Allowance(terms.timeout_s), terms).kernels)
    except FailedError as failure:
        text = "\n".join(filter(None, [str(failure), process.take_log().strip()]))
        raise FailedError(failure.status, text) from None
    finally:
        process.kill()
