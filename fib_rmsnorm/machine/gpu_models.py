"""The known GPU models and their datasheet figures, the limits of a multiprocessor by architecture, and its occupancy.

These are the only such tables in the package. A model's line comes from NVIDIA's datasheet or architecture white paper
of that model; the L2 sizes of H200, B200 and B300 come from their drivers. An A800 is an A100 with fewer links. The
first model of a compute capability represents it where code is compiled for an architecture without a GPU. The limits
come from the CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"; the units in which
registers and shared memory are allocated come from cuda_occupancy.h.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from fib_rmsnorm.errors import InputError

WARP = 32
REGISTERS = 65536  # per multiprocessor, on all architectures below
REGISTER_UNIT = 256  # registers are allocated to warps in multiples of this
SUBPARTITIONS = 4  # each has a quarter of a multiprocessor's registers, and its own warps
_OLDEST_COMPILED = (7, 0)
"""The oldest architecture that any of today's compilers supports."""
DEFAULT_ARCH = "sm_90"
"""The architecture to compile for if there is no GPU and none is named."""
_KIB, _MIB = 1 << 10, 1 << 20


@dataclass(frozen=True)
class GpuModel:
    """A GPU model."""

    name: str
    pattern: str
    """A regular expression for the names that drivers and authors of Traces give the model."""
    capability: tuple[int, int]
    bandwidth_gb_per_s: float
    """Memory bandwidth, in 10^9 bytes per second."""
    multiprocessors: int
    fp32_units: int
    """Multiply-add units per multiprocessor, outside the tensor cores."""
    boost_mhz: float
    l2_bytes: int

    def fp32_flops(self, clock_mhz: float | None) -> float:
        """Floating-point operations per second outside the tensor cores; a multiply-add counts as two."""
        return 2 * self.fp32_units * self.multiprocessors * (clock_mhz or self.boost_mhz) * 1e6


GPU_MODELS = (
    GpuModel("B200", r"\bB200\b", (10, 0), 8000, 148, 128, 1965, 126 * _MIB),
    GpuModel("B300", r"\bB300\b", (10, 3), 8000, 148, 128, 1920, 126 * _MIB),
    GpuModel("H200", r"\bH200\b", (9, 0), 4800, 132, 128, 1980, 60 * _MIB),
    GpuModel("H100 PCIe", r"\bH100.PCIe\b", (9, 0), 2039, 114, 128, 1755, 50 * _MIB),
    GpuModel("H100 SXM", r"\bH100\b(?!.NVL)", (9, 0), 3352, 132, 128, 1980, 50 * _MIB),
    GpuModel("A100 40 GB", r"\bA[18]00.*40GB\b", (8, 0), 1555, 108, 64, 1410, 40 * _MIB),
    GpuModel("A100 80 GB PCIe", r"\bA[18]00\b(?=.*PCIe)(?=.*80GB)", (8, 0), 1935, 108, 64, 1410, 40 * _MIB),
    GpuModel("A100 80 GB SXM", r"\bA[18]00\b", (8, 0), 2039, 108, 64, 1410, 40 * _MIB),
    GpuModel("T4", r"\bT4\b", (7, 5), 320, 40, 64, 1590, 4 * _MIB),
    GpuModel("V100 SXM2", r"\bV100.SXM2\b", (7, 0), 900, 80, 64, 1530, 6 * _MIB),
    GpuModel("V100 PCIe", r"\bV100.PCIe\b", (7, 0), 900, 80, 64, 1380, 6 * _MIB),
    GpuModel("A10", r"\bA10\b", (8, 6), 600, 72, 128, 1695, 6 * _MIB),
    GpuModel("Jetson AGX Orin", r"\bOrin\b", (8, 7), 204.8, 16, 128, 1300, 4 * _MIB),
    GpuModel("L40S", r"\bL40S\b", (8, 9), 864, 142, 128, 2520, 96 * _MIB),
    GpuModel("L4", r"\bL4\b", (8, 9), 300, 58, 128, 2040, 48 * _MIB),
    GpuModel("RTX 4090", r"\bRTX.4090\b", (8, 9), 1008, 128, 128, 2520, 72 * _MIB),
    GpuModel("RTX 5090", r"\bRTX.5090\b", (12, 0), 1792, 170, 128, 2407, 96 * _MIB),
    GpuModel("GB10", r"\bGB10\b", (12, 1), 273, 48, 128, 2418, 24 * _MIB),
)


def find_gpu_model(hardware: str) -> GpuModel | None:
    """Find a device's model by its name in a Trace (`NVIDIA H200`, `NVIDIA_A100_80GB`); None if unknown."""
    name = hardware.replace("_", " ")
    return next((model for model in GPU_MODELS if re.search(model.pattern, name, re.IGNORECASE)), None)


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


_ARCHITECTURES = (
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


def capability_of(arch: str) -> tuple[int, int]:
    """Split `sm_90` or `sm_100a` into the major and minor compute capability."""
    match = re.fullmatch(r"sm_(\d+)(\d)[af]?", arch)
    if match is None:
        raise ValueError(f"not a CUDA architecture: {arch!r} (expected a name such as sm_90)")
    return int(match[1]), int(match[2])


def check_arch(arch: str) -> str:
    """`sm_90` of `sm_90`, `90` or `9.0`. Raises InputError if it is not an architecture."""
    match = re.fullmatch(r"(?:sm_?)?(\d{1,2})\.?(\d)(a?)", arch.strip().lower())
    if not match:
        raise InputError(f"{arch!r} is not a GPU architecture: write it like sm_90")
    capability = int(match[1]), int(match[2])
    known = (_OLDEST_COMPILED, _ARCHITECTURES[-1].capability)
    if not known[0] <= capability <= known[1]:
        oldest, newest = ("sm_{}{}".format(*each) for each in known)
        raise InputError(f"{arch!r} is not a supported GPU architecture: choose one from {oldest} to {newest}")
    return f"sm_{match[1]}{match[2]}{match[3]}"


def find_architecture(arch: str) -> Architecture:
    """Return the limits of an architecture such as `sm_90`; an unknown one gets those of the nearest older one.

    Enough to compile and to answer a kernel that asks; `is_known` tells whether the limits are the architecture's own.
    """
    older = [each for each in _ARCHITECTURES if each.capability <= capability_of(arch)]
    return older[-1] if older else _ARCHITECTURES[0]


def is_known(arch: str) -> bool:
    """Whether the table has the limits of an architecture such as `sm_90`."""
    return any(each.capability == capability_of(arch) for each in _ARCHITECTURES)


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
    """Compute the theoretical occupancy of blocks of `threads` threads that use `shared_bytes` each.

    By the rules of NVIDIA's cuda_occupancy.h.
    """
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
