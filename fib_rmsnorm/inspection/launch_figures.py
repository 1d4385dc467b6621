"""What a launch of a compiled kernel asks of a GPU."""

from __future__ import annotations

from dataclasses import asdict
from math import ceil
from typing import Any

from fib_rmsnorm.inspection.compile_messages import Inspected
from fib_rmsnorm.machine.architectures import WARP, Architecture
from fib_rmsnorm.machine.occupancy import occupancy
from fib_rmsnorm.schema import Workload

SECTOR_BYTES = 32
"""What a GPU's memory system moves at a time."""

Record = dict[str, Any]


def describe_launch(
    workload: Workload,
    launch: Inspected.Launch,
    kernel: Inspected.Kernel,
    architecture: Architecture,
    multiprocessors: int,
) -> Record:
    """The grid and block, how full the multiprocessors get, and the memory transactions."""
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
        "traffic": _describe_traffic(workload, kernel.code, blocks, threads),
    }


def _describe_traffic(workload: Workload, code: Inspected.Code | None, blocks: int, threads: int) -> Record | None:
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


def _product(sizes: tuple[int, int, int]) -> int:
    return sizes[0] * sizes[1] * sizes[2]
