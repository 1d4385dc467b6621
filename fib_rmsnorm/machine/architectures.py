"""What the multiprocessors of GPU architectures hold.

The limits are those of the CUDA C++ Programming Guide's "Technical Specifications per Compute Capability"; how
registers and shared memory are handed out is what cuda_occupancy.h computes with.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from fib_rmsnorm.machine.gpu_models import GPU_MODELS, GpuModel

WARP = 32
REGISTERS = 65536  # of a multiprocessor, on all of these
MAX_THREADS_PER_BLOCK = 1024
REGISTER_UNIT = 256  # registers are handed out to warps in multiples of this
SUBPARTITIONS = 4  # each has a quarter of the registers, and its own warps
SHARED_UNIT = 128
RESERVED_SHARED_BYTES = 1024
"""Shared memory of every block that belongs to the system, from compute capability 8.0 on."""

_KIB = 1024


@dataclass(frozen=True)
class Architecture:
    """One compute capability."""

    capability: tuple[int, int]
    max_threads: int
    """Of a multiprocessor."""
    max_blocks: int
    """Of a multiprocessor."""
    shared_bytes: int
    """Of a multiprocessor."""

    @property
    def model(self) -> GpuModel:
        """The GPU model that stands for the architecture, which itself says nothing of L2 or multiprocessors."""
        return next(model for model in GPU_MODELS if model.capability == self.capability)

    @property
    def max_shared_bytes(self) -> int:
        """Shared memory that one block may ask for."""
        return self.shared_bytes - RESERVED_SHARED_BYTES

    @property
    def max_warps(self) -> int:
        """Warps of a multiprocessor."""
        return self.max_threads // WARP


_KNOWN = (
    Architecture((8, 0), 2048, 32, 164 * _KIB),
    Architecture((8, 6), 1536, 16, 100 * _KIB),
    Architecture((8, 7), 1536, 16, 164 * _KIB),
    Architecture((8, 9), 1536, 24, 100 * _KIB),
    Architecture((9, 0), 2048, 32, 228 * _KIB),
    Architecture((10, 0), 2048, 32, 228 * _KIB),
    Architecture((10, 3), 2048, 32, 228 * _KIB),
    Architecture((12, 0), 1536, 24, 100 * _KIB),
    Architecture((12, 1), 1536, 24, 100 * _KIB),
)
_BY_CAPABILITY = {each.capability: each for each in _KNOWN}
NEWEST_KNOWN = _KNOWN[-1].capability
OLDEST_COMPILED = (7, 0)
"""Compilers of today know none before it, if they know it."""
DEFAULT_ARCH = "sm_90"
"""What to compile for where there is no GPU and none is named."""


def capability_of(arch: str) -> tuple[int, int]:
    """Split `sm_90` or `sm_100a` into the major and minor compute capability."""
    match = re.fullmatch(r"sm_(\d+)(\d)[af]?", arch)
    if match is None:
        raise ValueError(f"not a CUDA architecture: {arch!r} (wanted something like sm_90)")
    return int(match[1]), int(match[2])


def find_architecture(arch: str) -> Architecture:
    """What is known of `sm_90`; for one that is not in the table, the nearest older one stands."""
    wanted = capability_of(arch)
    if wanted in _BY_CAPABILITY:
        return _BY_CAPABILITY[wanted]
    older = [each for each in _KNOWN if each.capability < wanted]
    return older[-1] if older else _KNOWN[0]
