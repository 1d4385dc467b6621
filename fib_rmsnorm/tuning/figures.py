"""Facts from the compiled code of each combination: block, occupancy, and memory transactions per row."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from pydantic import BaseModel

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.evaluation.run_config import RunConfig
from fib_rmsnorm.inspection import COMPILER
from fib_rmsnorm.inspection.explanation import explain
from fib_rmsnorm.inspection.facts import Traffic
from fib_rmsnorm.languages import LANGUAGES
from fib_rmsnorm.machine.devices import Device, gpu_arch
from fib_rmsnorm.machine.gpu_models import DEFAULT_ARCH
from fib_rmsnorm.registry import generate_workloads
from fib_rmsnorm.sandbox.fork_server import ForkServer
from fib_rmsnorm.tuning.tunable import Parameters, Tunable


class CompiledCombination(BaseModel):
    """Facts from the compiled code of one combination at one batch."""

    parameters: dict[str, int]
    batch: int
    arch: str | None
    threads: int
    registers: int | None
    spill_bytes: int | None
    occupancy: float | None
    waves: float | None
    traffic: Traffic | None


def collect_figures(
    tunable: Tunable, combinations: Sequence[Parameters], batch: int, device: Device, config: RunConfig
) -> list[CompiledCombination]:
    """Make a row for each combination that launches exactly one kernel at this batch; none for CPU code."""
    language = LANGUAGES[tunable.solution.spec.language.value]
    # A kernel that a CPU interprets can be compiled for a GPU, too.
    if not language.compiles_for_gpus or (device.kind == "cpu" and language.on["cpu"][0] != "interpret"):
        return []
    arch = gpu_arch(device)
    workloads = generate_workloads(tunable.definition, [batch])
    here = device if arch else None

    def inspect(combination: Parameters) -> CompiledCombination | None:
        variant = tunable.make_variant(combination)
        try:
            found = explain(fork_server, tunable.definition, variant, workloads, arch or DEFAULT_ARCH, config, here)
        except InputError:
            return None  # it does not compile, which its evaluation reports
        if len(found.launches) != 1:
            return None
        (launch,) = found.launches
        kernel = found.kernels[launch.kernel_number]
        return CompiledCombination(
            parameters=dict(combination),
            batch=batch,
            arch=found.arch,
            threads=launch.threads,
            registers=kernel.registers,
            spill_bytes=kernel.spill_bytes,
            occupancy=launch.occupancy.share if launch.occupancy else None,
            waves=launch.waves,
            traffic=launch.traffic,
        )

    # The threads last: Ctrl-C stops the processes, for which they wait.
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads, ForkServer((COMPILER,)) as fork_server:
        return [row for row in threads.map(inspect, combinations) if row is not None]
