"""The limits of a multiprocessor, by GPU architecture.

The limits come from the CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"; the units in
which registers and shared memory are allocated come from cuda_occupancy.h.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from fib_rmsnorm.machine.gpu_models import GPU_MODELS, GpuModel

WARP = 32
REGISTERS = 65536  # per multiprocessor, on all architectures below
MAX_THREADS_PER_BLOCK = 1024
REGISTER_UNIT = 256  # registers are allocated to warps in multiples of this
SUBPARTITIONS = 4  # each has a quarter of a multiprocessor's registers, and its own warps

_KIB = 1024


@dataclass(frozen=True)
class Architecture:
    """One compute capability."""

    capability: tuple[int, int]
    max_threads: int
    """Limit of resident threads per multiprocessor."""
    max_blocks: int
    """Limit of resident blocks per multiprocessor."""
    shared_bytes: int
    """Shared memory per multiprocessor, in bytes."""

    @property
    def model(self) -> GpuModel:
        """The GPU model that represents the architecture; it adds the L2 size and the number of multiprocessors."""
        return next(model for model in GPU_MODELS if model.capability == self.capability)

    @property
    def reserved_shared_bytes(self) -> int:
        """Shared memory that the system reserves in each block."""
        return 1024 if self.capability >= (8, 0) else 0

    @property
    def shared_unit(self) -> int:
        """Shared memory is allocated to blocks in multiples of this many bytes."""
        return 128 if self.capability >= (8, 0) else 256

    @property
    def max_shared_bytes(self) -> int:
        """The most shared memory that one block may use."""
        return self.shared_bytes - self.reserved_shared_bytes

    @property
    def max_warps(self) -> int:
        """Limit of resident warps per multiprocessor."""
        return self.max_threads // WARP


_KNOWN = (
    Architecture((7, 0), 2048, 32, 96 * _KIB),
    Architecture((7, 5), 1024, 16, 64 * _KIB),
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
"""The oldest architecture that any of today's compilers supports."""
DEFAULT_ARCH = "sm_90"
"""The architecture to compile for if there is no GPU and none is named."""


def capability_of(arch: str) -> tuple[int, int]:
    """Split `sm_90` or `sm_100a` into the major and minor compute capability."""
    match = re.fullmatch(r"sm_(\d+)(\d)[af]?", arch)
    if match is None:
        raise ValueError(f"not a CUDA architecture: {arch!r} (expected a name such as sm_90)")
    return int(match[1]), int(match[2])


def find_architecture(arch: str) -> Architecture:
    """Return the limits of an architecture such as `sm_90`; an unknown one gets those of the nearest older one.

    Enough to compile and to answer a kernel that asks; `is_known` tells whether the limits are the architecture's own.
    """
    wanted = capability_of(arch)
    if wanted in _BY_CAPABILITY:
        return _BY_CAPABILITY[wanted]
    older = [each for each in _KNOWN if each.capability < wanted]
    return older[-1] if older else _KNOWN[0]


def is_known(arch: str) -> bool:
    """Whether the table has the limits of an architecture such as `sm_90`."""
    return capability_of(arch) in _BY_CAPABILITY
