"""Compute how many blocks of a kernel fit on a multiprocessor, by the rules of NVIDIA's cuda_occupancy.h."""

from __future__ import annotations

from dataclasses import dataclass

from fib_rmsnorm.machine.gpu_models import REGISTER_UNIT, REGISTERS, SUBPARTITIONS, WARP, Architecture


@dataclass(frozen=True)
class Occupancy:
    """The theoretical occupancy of a kernel, and what limits it."""

    blocks: int
    """Resident blocks per multiprocessor; with 0, the launch fails."""
    warps: int
    share: float
    """Resident warps as a share of the multiprocessor's limit."""
    limits: tuple[str, ...]
    """The resources that allow no further block: `warps`, `blocks`, `registers` or `shared memory`."""


def occupancy(architecture: Architecture, threads: int, registers: int, shared_bytes: int) -> Occupancy:
    """Compute the theoretical occupancy of blocks of `threads` threads that use `shared_bytes` each."""
    warps = _round_up(threads, WARP) // WARP
    most = {
        "warps": architecture.max_warps // warps,
        "blocks": architecture.max_blocks,
        "registers": 0,
        # Before 8.0, a block may need none.
        "shared memory": architecture.shared_bytes
        // max(1, _round_up(shared_bytes + architecture.reserved_shared_bytes, architecture.shared_unit)),
    }
    # Each warp takes its registers from one subpartition.
    of_a_warp = _round_up(max(1, registers) * WARP, REGISTER_UNIT)
    if of_a_warp * _round_up(warps, SUBPARTITIONS) <= REGISTERS:
        most["registers"] = REGISTERS // SUBPARTITIONS // of_a_warp * SUBPARTITIONS // warps
    blocks = min(most.values())
    limits = tuple(what for what, number in most.items() if number == blocks)
    return Occupancy(blocks, blocks * warps, blocks * warps / architecture.max_warps, limits)


def _round_up(number: int, unit: int) -> int:
    return -(-number // unit) * unit
