"""What a launch of a compiled kernel means for a GPU: occupancy, waves and memory transactions."""

from __future__ import annotations

from math import ceil, prod

from fib_rmsnorm.inspection.facts import Code, Direction, ExplainedLaunch, InspectedKernel, Launch, Traffic
from fib_rmsnorm.machine.architectures import WARP, Architecture
from fib_rmsnorm.machine.occupancy import occupancy
from fib_rmsnorm.schema import Workload

SECTOR_BYTES = 32
"""What a GPU's memory system moves at a time."""


def explain_launch(
    workload: Workload,
    rows: int | None,
    launch: Launch,
    kernel: InspectedKernel,
    architecture: Architecture | None,
    multiprocessors: int | None,
) -> ExplainedLaunch:
    """The launch with how full it makes the multiprocessors, if they are known, and with its memory transactions.

    `rows` is the size of the Definition's row axis; without one, the transactions of a row are not counted.
    """
    blocks, threads = prod(launch.grid), prod(launch.block)
    shared = (kernel.shared_bytes or 0) + launch.dynamic_shared_bytes
    fits = None
    if architecture is not None and kernel.registers is not None:
        fits = occupancy(architecture, threads, kernel.registers, shared)
    return ExplainedLaunch(
        **launch.model_dump(),
        axes=workload.axes,
        kernel=kernel.kernel,
        occupancy=fits,
        waves=blocks / (fits.blocks * multiprocessors) if fits and fits.blocks and multiprocessors else None,
        traffic=_count_traffic(rows, kernel.code, blocks, threads),
    )


def _count_traffic(rows: int | None, code: Code | None, blocks: int, threads: int) -> Traffic | None:
    """Count in the code, for which each access must run once in each thread.

    None where one lies in a loop, or where copies are made that say their size only at run time. Neighbouring
    threads are taken to access neighbouring bytes; an access behind a condition counts as made.
    """
    if code is None or not rows or "asynchronous copies" in code.instructions:
        return None
    if any(access.in_loop for access in code.accesses):
        return None

    def count(does: Direction) -> tuple[float, float]:
        mine = [access for access in code.accesses if access.does == does]
        requests = sum(access.count for access in mine) * blocks * ceil(threads / WARP) / rows
        sectors = sum(access.count * access.bytes for access in mine) * blocks * threads / SECTOR_BYTES / rows
        return requests, sectors

    (load_requests, load_sectors), (store_requests, store_sectors) = count("load"), count("store")
    return Traffic(
        load_requests_per_row=load_requests,
        load_sectors_per_row=load_sectors,
        store_requests_per_row=store_requests,
        store_sectors_per_row=store_sectors,
    )
