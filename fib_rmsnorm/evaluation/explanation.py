"""What a Solution's compiled code says of its speed: `explain`, with or without a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from math import ceil
from typing import Any

from fib_rmsnorm.errors import EnvironmentMissingError, InputError
from fib_rmsnorm.evaluation.answers import Inspected
from fib_rmsnorm.evaluation.building.architectures import WARP, Architecture, find_architecture
from fib_rmsnorm.evaluation.building.native import find_cuda_home, find_cxx, find_ninja
from fib_rmsnorm.evaluation.building.occupancy import occupancy
from fib_rmsnorm.evaluation.compiler import inspect_solution
from fib_rmsnorm.evaluation.devices import Device
from fib_rmsnorm.evaluation.process import Zygote
from fib_rmsnorm.evaluation.workers import FailedError, Terms
from fib_rmsnorm.operators import find_operator
from fib_rmsnorm.registry import bytes_moved, tensor_bytes
from fib_rmsnorm.schema import Definition, Solution, SupportedLanguages, Workload

SECTOR_BYTES = 32
"""What a GPU's memory system moves at a time."""

Record = dict[str, Any]


def explain(
    zygote: Zygote,
    definition: Definition,
    solution: Solution,
    workloads: Sequence[Workload],
    arch: str,
    terms: Terms,
    device: Device | None = None,
) -> Record:
    """Everything `fib-rmsnorm explain` says. `device` is a GPU here of that architecture, if there is one.

    Raises InputError if the Solution cannot be compiled here.
    """
    _check(solution)
    try:
        found = inspect_solution(zygote, definition, solution, workloads, arch, terms)
    except FailedError as failure:
        raise InputError(
            f"{solution.name} does not compile for {arch}: {_first_error(str(failure).removeprefix('compiling: '))}"
        ) from None
    architecture = find_architecture(arch)
    multiprocessors = _count_multiprocessors(device) or architecture.multiprocessors
    on_host = solution.spec.language is SupportedLanguages.CPP
    launches = zip(workloads, found.launches, strict=False)
    return {
        "solution": solution.name,
        "definition": definition.name,
        "language": solution.spec.language.value,
        "arch": None if on_host else arch,
        "chip": None if on_host else device.hardware if device else architecture.chip,
        "multiprocessors": None if on_host else multiprocessors,
        "kernels": [kernel.model_dump() for kernel in found.kernels],
        "launches": [
            _describe_launch(definition, workload, launch, found.kernels[launch.kernel], architecture, multiprocessors)
            for workload, each in launches
            for launch in each
            if launch.kernel < len(found.kernels)
        ],
        "functions": [function.model_dump() for function in found.functions],
        "work": [_describe_work(definition, workload) for workload in workloads],
        "notes": found.notes,
    }


def _check(solution: Solution) -> None:
    """Raise EnvironmentMissingError if what compiles the Solution is missing, InputError if nothing compiles it."""
    from importlib.util import find_spec

    language = solution.spec.language
    if language is SupportedLanguages.PYTHON:
        raise InputError(f"{solution.name} is Python: there is no compiled code of it to explain")
    if language is not SupportedLanguages.CPP and all(
        "cpu" in target.lower() for target in solution.spec.target_hardware
    ):
        raise InputError(f"{solution.name} is made for the CPU: explain reads kernels of GPUs, and C++")
    needs: dict[SupportedLanguages, list[tuple[str, object, str]]] = {
        SupportedLanguages.TRITON: [("triton", find_spec("triton"), "pip install triton")],
        SupportedLanguages.TILELANG: [
            ("tilelang", find_spec("tilelang"), "pip install 'fib-rmsnorm[tilelang]'"),
            ("nvcc", find_cuda_home(), "install a CUDA toolkit and set CUDA_HOME"),
        ],
        SupportedLanguages.CUDA: [
            ("nvcc", find_cuda_home(), "install a CUDA toolkit and set CUDA_HOME"),
            ("a C++ compiler", find_cxx(), "apt-get install g++"),
            ("ninja", find_ninja(), "pip install ninja"),
        ],
        SupportedLanguages.CPP: [
            ("a C++ compiler", find_cxx(), "apt-get install g++"),
            ("ninja", find_ninja(), "pip install ninja"),
        ],
    }
    for what, found, remedy in needs[language]:
        if found is None:
            raise EnvironmentMissingError(f"{solution.name} cannot be compiled here: {what} is missing; {remedy}")


def _first_error(log: str) -> str:
    """The line of a compiler's output that says what is wrong."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return next((line for line in lines if "error" in line.lower()), lines[0] if lines else "")


def _count_multiprocessors(device: Device | None) -> int | None:
    if device is None:
        return None
    import torch

    return int(torch.cuda.get_device_properties(device.name).multi_processor_count)


def _describe_launch(
    definition: Definition,
    workload: Workload,
    launch: Inspected.Launch,
    kernel: Inspected.Kernel,
    architecture: Architecture,
    multiprocessors: int,
) -> Record:
    blocks, threads = _product(launch.grid), _product(launch.block)
    shared = (kernel.shared_bytes or 0) + launch.dynamic_shared_bytes
    fits = occupancy(architecture, threads, kernel.registers, shared) if kernel.registers is not None else None
    return {
        "axes": workload.axes,
        "kernel": kernel.kernel,
        "kernel_number": launch.kernel,
        "grid": list(launch.grid),
        "block": list(launch.block),
        "dynamic_shared_bytes": launch.dynamic_shared_bytes,
        "occupancy": asdict(fits) if fits else None,
        "waves": blocks / (fits.blocks * multiprocessors) if fits and fits.blocks else None,
        "traffic": _describe_traffic(definition, workload, kernel.code, blocks, threads),
    }


def _describe_traffic(
    definition: Definition, workload: Workload, code: Inspected.Code | None, blocks: int, threads: int
) -> Record | None:
    """Memory transactions of a row: the requests of warps, and the sectors of 32 bytes that they ask for.

    Counted in the code, for which each access must run once in each thread: none where one lies in a loop, or
    where copies are made that say their size only at run time. Neighbouring threads are taken to access
    neighbouring bytes; an access behind a condition counts as made.
    """
    rows = workload.axes.get("batch")
    if code is None or not rows or "asynchronous copies" in code.instructions:
        return None
    if any(access.in_loop for access in code.accesses):
        return None
    told: Record = {}
    for does in ("load", "store"):
        mine = [access for access in code.accesses if access.does == does]
        requests = sum(access.count for access in mine) * blocks * ceil(threads / WARP) / rows
        sectors = sum(access.count * access.bytes for access in mine) * blocks * threads / SECTOR_BYTES / rows
        told |= {f"{does}_requests_per_row": requests, f"{does}_sectors_per_row": sectors}
    return told


def _describe_work(definition: Definition, workload: Workload) -> Record:
    """What the Definition asks for, whoever computes it."""
    operator = find_operator(definition)
    flops = operator.count_cost(definition, dict(workload.axes)).flops if operator else None
    moved = bytes_moved(definition, workload)
    rows = workload.axes.get("batch")
    sizes = tensor_bytes(definition, workload)
    sectors = sum(sizes.values()) / SECTOR_BYTES
    return {
        "axes": workload.axes,
        "flops": flops,
        "bytes_moved": moved,
        "flops_per_byte": flops / moved if flops is not None else None,
        "least_sectors_per_row": sectors / rows if rows else None,
    }


def _product(sizes: tuple[int, int, int]) -> int:
    return sizes[0] * sizes[1] * sizes[2]
