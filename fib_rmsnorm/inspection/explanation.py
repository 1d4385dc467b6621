"""Explain a Solution's speed by its compiled code, with or without a GPU."""

import re
import time
from collections.abc import Iterator, Sequence
from math import ceil, prod
from pathlib import Path
from typing import Literal, NamedTuple

from fib_rmsnorm.building.cache import cache_variables, solution_cache
from fib_rmsnorm.building.native import toolchain_paths
from fib_rmsnorm.errors import EnvironmentMissingError, InputError, KernelError
from fib_rmsnorm.evaluation.run_config import RunConfig
from fib_rmsnorm.evaluation.worker_client import EvaluationFailedError, WorkerClient
from fib_rmsnorm.file_trees import remove_tree
from fib_rmsnorm.inspection import COMPILER
from fib_rmsnorm.inspection.conclusions import conclude
from fib_rmsnorm.inspection.facts import Code, Compile, Compiled, ExplainedLaunch, Explanation, Launch, Traffic, Work
from fib_rmsnorm.languages import LANGUAGES, Language, title_of
from fib_rmsnorm.machine.capabilities import find_missing, missing_dependency
from fib_rmsnorm.machine.devices import Device, find_properties, gpu_arch
from fib_rmsnorm.machine.gpu_models import DEFAULT_ARCH, find_architecture, is_known, occupancy, vendor_of
from fib_rmsnorm.operators import count_cost
from fib_rmsnorm.registry import bytes_moved, generate_workloads, tensor_bytes
from fib_rmsnorm.registry.selection import row_axis
from fib_rmsnorm.sandbox.fork_server import ForkServer
from fib_rmsnorm.schema import Definition, Solution, Workload

# Launch shapes follow the batch: these four meet the ones that matter.
_BATCH_SIZES = (1, 512, 4096, 65536)


class Compilation(NamedTuple):
    """The outcome of compiling one Solution."""

    outcome: Literal["built", "failed", "skipped"]
    seconds: float
    message: str = ""


def build_solution(
    fork_server: ForkServer, definition: Definition, solution: Solution, arch: str | None, config: RunConfig
) -> Compilation:
    """Build a Solution, its kernels for the GPU architecture `arch`; None means a machine without a GPU."""
    language = LANGUAGES[solution.spec.language.value]
    reason = missing_dependency(solution)
    if language.compiles_for_gpus:
        no_gpu = "no GPU here: name an architecture, such as --arch sm_90"
        reason = (_not_compiled_for(language, arch) if arch else no_gpu) or reason
    if reason:
        return Compilation("skipped", 0.0, reason)
    workloads = [] if language.is_compiled else generate_workloads(definition, _BATCH_SIZES)
    started = time.monotonic()
    try:
        inspect_solution(fork_server, definition, solution, workloads, arch or DEFAULT_ARCH, config)
    except EvaluationFailedError as failure:
        return Compilation("failed", time.monotonic() - started, str(failure))
    return Compilation("built", time.monotonic() - started)


def inspect_solution(
    fork_server: ForkServer,
    definition: Definition,
    solution: Solution,
    workloads: Sequence[Workload],
    arch: str,
    config: RunConfig,
) -> Compiled:
    """Compile a Solution in a process of its own, and see what it launches on the Workloads.

    Raises EvaluationFailedError with the compiler's output, and what the process wrote.
    """
    request = Compile(
        definition=definition, solution=solution, workloads=list(workloads), arch=arch, cache=solution_cache(solution)
    )
    variables = cache_variables(request.cache)
    process = fork_server.spawn(COMPILER, variables, readable=toolchain_paths(), writable=[request.cache])
    try:
        compiled = WorkerClient(process, config, definition).ask(request, Compiled)
    except EvaluationFailedError as failure:
        raise failure.with_log(process.take_log()) from None
    else:
        log = process.take_log() if vendor_of(arch).only_prints_errors else ""
        if re.search("^error: ", log, re.MULTILINE):
            remove_tree(Path(variables["TRITON_CACHE_DIR"]))  # or the next call would find the code without its error
            raise EvaluationFailedError("COMPILE_ERROR", log)
        return compiled
    finally:
        process.kill()


_SECTOR_BYTES = 32
"""The unit of transfer of a GPU's memory system."""


def explain(
    fork_server: ForkServer,
    definition: Definition,
    solution: Solution,
    workloads: Sequence[Workload],
    arch: str | None,
    config: RunConfig,
    device: Device,
) -> Explanation:
    """Everything `fib-rmsnorm explain` says, for an architecture; default: the device's, else `DEFAULT_ARCH`.

    Raises KernelError if the Solution does not compile, InputError if nothing can be compiled here.
    """
    own = gpu_arch(device)
    arch = arch or own or DEFAULT_ARCH
    gpu = find_properties(device.name) if own == arch else None
    _check(solution, arch)
    try:
        found = inspect_solution(fork_server, definition, solution, workloads, arch, config)
    except EvaluationFailedError as failure:
        log = str(failure).removeprefix("compiling: ").splitlines()
        lines = [line.strip() for line in log if line.strip()] or [""]
        error = next((line for line in lines if "error" in line.lower()), lines[0])
        raise KernelError(f"{solution.name} does not compile for {arch}: {error}") from None
    limits = find_architecture(arch) if is_known(arch) else None
    chip = device.hardware if gpu else limits.model.name if limits else None
    multiprocessors = gpu.multiprocessors if gpu else limits.model.multiprocessors if limits else None
    unknown = (
        f"occupancy and waves are unknown: no GPU model of {arch} is known here; a kernel that asks its device for"
        f" properties is answered as on a {find_architecture(arch).model.name}"
    )
    explanation = Explanation(
        solution=solution.name,
        definition=definition.name,
        language=solution.spec.language.value,
        arch=arch,
        chip=chip,
        multiprocessors=multiprocessors,
        kernels=found.kernels,
        launches=tuple(_explain_launches(found, workloads, _counted_axis(definition), arch, multiprocessors)),
        work=tuple(_describe_work(definition, workload) for workload in workloads),
        notes=found.notes if limits else (*found.notes, unknown),
    )
    return explanation.model_copy(update={"conclusions": tuple(conclude(explanation))})


def _explain_launches(
    found: Compiled, workloads: Sequence[Workload], axis: str | None, arch: str, multiprocessors: int | None
) -> Iterator[ExplainedLaunch]:
    """The launches with how full they make the multiprocessors, if these are known, and with their transactions."""
    limits, warp = find_architecture(arch) if is_known(arch) else None, vendor_of(arch).warp
    for workload, launches in zip(workloads, found.launches, strict=False):
        rows = workload.axes.get(axis or "")
        for launch in launches:
            if launch.kernel_number >= len(found.kernels):
                continue
            kernel = found.kernels[launch.kernel_number]
            fits = None
            if limits is not None and kernel.registers is not None:
                shared = (kernel.shared_bytes or 0) + launch.dynamic_shared_bytes
                fits = occupancy(limits, prod(launch.block), kernel.registers, shared, kernel.scalar_registers or 0)
            yield ExplainedLaunch(
                **launch.model_dump(),
                axes=workload.axes,
                kernel=kernel.kernel,
                occupancy=fits,
                waves=prod(launch.grid) / (fits.blocks * multiprocessors)
                if fits and fits.blocks and multiprocessors
                else None,
                traffic=_count_traffic(rows, kernel.code, launch, warp),
            )


def _count_traffic(rows: int | None, code: Code | None, launch: Launch, warp: int) -> Traffic | None:
    """Count in the code, for which each access must run once in each thread; else by what a block moves.

    None where neither tells, or where copies are made that say their size only at run time. Neighbouring threads are
    taken to access neighbouring bytes; an access behind a condition counts as made.
    """
    if code is None or not rows or "asynchronous copies" in code.instructions:
        return None
    blocks, threads = prod(launch.grid) / rows, prod(launch.block)
    loads, stores = ([each for each in code.accesses if each.does == does] for does in ("load", "store"))
    if not any(access.in_loop for access in code.accesses):
        requests = sum(access.count for access in loads) * ceil(threads / warp)
        loaded, stored = (sum(access.count * access.bytes for access in each) * threads for each in (loads, stores))
    elif launch.block_bytes is not None and len({access.bytes for access in loads}) == 1:
        loaded, stored = launch.block_bytes["load"], launch.block_bytes["store"]
        requests = ceil(loaded / (loads[0].bytes * warp))
    else:
        return None
    return Traffic(
        load_requests_per_row=requests * blocks,
        load_sectors_per_row=loaded * blocks / _SECTOR_BYTES,
        store_sectors_per_row=stored * blocks / _SECTOR_BYTES,
    )


def _check(solution: Solution, arch: str) -> None:
    """Raise EnvironmentMissingError if what compiles the Solution is missing, InputError if nothing compiles it."""
    language = LANGUAGES[solution.spec.language.value]
    if language.runs_on_host or not (language.is_compiled or language.ahead_of_time):
        raise InputError(f"{solution.name} is {language.title}: it has no code of a GPU to explain")
    if all("cpu" in target.lower() for target in solution.spec.target_hardware):
        raise InputError(f"{solution.name} is made for the CPU: explain reads GPU kernels")
    if unable := _not_compiled_for(language, arch):
        raise InputError(f"{solution.name} cannot be explained for {arch}: {unable}")
    if missing := find_missing(language, language.needs_to_compile):
        raise EnvironmentMissingError(f"{solution.name} cannot be compiled here: {missing}")


def _not_compiled_for(language: Language, arch: str) -> str:
    """The reason why a language does not compile for an architecture; empty if it does."""
    vendor = vendor_of(arch)
    if not vendor.languages or language.name in vendor.languages:
        return ""
    titles = " and ".join(title_of(each) for each in vendor.languages)
    return f"{language.title} does not compile for {vendor.name}'s GPUs here, only {titles} does"


def _describe_work(definition: Definition, workload: Workload) -> Work:
    cost = count_cost(definition, workload.axes)
    moved = bytes_moved(definition, workload)
    sizes = tensor_bytes(definition, workload)
    row, rows = row_axis(definition), workload.axes.get(_counted_axis(definition) or "")
    least = wanted = None
    if rows:
        least = sum(sizes.values()) / _SECTOR_BYTES / rows
        inputs = {name: spec for name, spec in definition.inputs.items() if name in sizes}
        by_row = (sizes[name] / (rows if row in (spec.shape or ()) else 1) for name, spec in inputs.items())
        wanted = sum(by_row) / _SECTOR_BYTES
    return Work(
        axes=workload.axes,
        flops=cost.flops if cost else None,
        bytes_moved=moved,
        flops_per_byte=cost.flops / moved if cost else None,
        least_sectors_per_row=least,
        input_sectors_per_row=wanted,
    )


def _counted_axis(definition: Definition) -> str | None:
    """The row axis, if transactions can be counted by its rows: not where an output sums over them, as dweight does."""
    axis = row_axis(definition)
    return axis if all(axis in (spec.shape or ()) for spec in definition.outputs.values()) else None
