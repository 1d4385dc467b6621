"""The known GPU models and their datasheet figures, the limits of a multiprocessor by architecture, and its occupancy.

These are the only such tables in the package. A model's line comes from its maker's datasheet or architecture white
paper; the L2 sizes of H200, B200 and B300 come from their drivers. An A800 is an A100 with fewer links. The first model
of an architecture represents it where code is compiled without a GPU. NVIDIA's limits come from the CUDA C++
Programming Guide, "Technical Specifications per Compute Capability"; the units in which registers and shared memory are
allocated come from cuda_occupancy.h.

AMD's compute units, LDS, L2 and register files come from ROCm's "AMD GPU specifications", its bandwidths and clocks
from the data sheets of MI250X, MI300X and MI355X, its rates of FP32 from the white papers of CDNA 2, 3 and 4. An MI250X
is two devices; its line is one of them. The waves of a SIMD and the units of registers come from HIP's occupancy
calculation (`hipOccupancyMaxActiveBlocksPerMultiprocessor`), those of LDS from LLVM's AMDGPU back end.
"""

import re
from dataclasses import dataclass

from fib_rmsnorm.errors import InputError

# Of all architectures below. Each subpartition, or SIMD, of a multiprocessor has its own registers and warps.
_SUBPARTITIONS = 4
_LANE_REGISTERS = 512  # of a subpartition, for each lane of a warp
_REGISTER_UNIT = 8  # registers of a thread are allocated in multiples of this
_SCALAR_REGISTER_UNIT = 16  # those of a warp, where they are limited
DEFAULT_ARCH = "sm_90"
"""The architecture to compile for if there is no GPU and none is named."""
_KIB, _MIB = 1 << 10, 1 << 20


@dataclass(frozen=True)
class GpuModel:
    """A GPU model."""

    name: str
    pattern: str
    """A regular expression for the names that drivers and authors of Traces give the model."""
    arch: str
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
    GpuModel("B200", r"\bB200\b", "sm_100", 8000, 148, 128, 1965, 126 * _MIB),
    GpuModel("B300", r"\bB300\b", "sm_103", 8000, 148, 128, 1920, 126 * _MIB),
    GpuModel("H200", r"\bH200\b", "sm_90", 4800, 132, 128, 1980, 60 * _MIB),
    GpuModel("H100 PCIe", r"\bH100.PCIe\b", "sm_90", 2039, 114, 128, 1755, 50 * _MIB),
    GpuModel("H100 SXM", r"\bH100\b(?!.NVL)", "sm_90", 3352, 132, 128, 1980, 50 * _MIB),
    GpuModel("A100 40 GB", r"\bA[18]00.*40GB\b", "sm_80", 1555, 108, 64, 1410, 40 * _MIB),
    GpuModel("A100 80 GB PCIe", r"\bA[18]00\b(?=.*PCIe)(?=.*80GB)", "sm_80", 1935, 108, 64, 1410, 40 * _MIB),
    GpuModel("A100 80 GB SXM", r"\bA[18]00\b", "sm_80", 2039, 108, 64, 1410, 40 * _MIB),
    GpuModel("T4", r"\bT4\b", "sm_75", 320, 40, 64, 1590, 4 * _MIB),
    GpuModel("V100 SXM2", r"\bV100.SXM2\b", "sm_70", 900, 80, 64, 1530, 6 * _MIB),
    GpuModel("V100 PCIe", r"\bV100.PCIe\b", "sm_70", 900, 80, 64, 1380, 6 * _MIB),
    GpuModel("A10", r"\bA10\b", "sm_86", 600, 72, 128, 1695, 6 * _MIB),
    GpuModel("Jetson AGX Orin", r"\bOrin\b", "sm_87", 204.8, 16, 128, 1300, 4 * _MIB),
    GpuModel("L40S", r"\bL40S\b", "sm_89", 864, 142, 128, 2520, 96 * _MIB),
    GpuModel("L4", r"\bL4\b", "sm_89", 300, 58, 128, 2040, 48 * _MIB),
    GpuModel("RTX 4090", r"\bRTX.4090\b", "sm_89", 1008, 128, 128, 2520, 72 * _MIB),
    GpuModel("RTX 5090", r"\bRTX.5090\b", "sm_120", 1792, 170, 128, 2407, 96 * _MIB),
    GpuModel("GB10", r"\bGB10\b", "sm_121", 273, 48, 128, 2418, 24 * _MIB),
    GpuModel("MI250X", r"\bMI250X\b", "gfx90a", 1638, 110, 64, 1700, 8 * _MIB),
    GpuModel("MI300X", r"\bMI300X\b", "gfx942", 5300, 304, 128, 2100, 32 * _MIB),
    GpuModel("MI355X", r"\bMI355X\b", "gfx950", 8000, 256, 128, 2400, 32 * _MIB),
)


def find_gpu_model(hardware: str) -> GpuModel | None:
    """Find a device's model by its name in a Trace (`NVIDIA H200`, `NVIDIA_A100_80GB`); None if unknown."""
    name = hardware.replace("_", " ")
    return next((model for model in GPU_MODELS if re.search(model.pattern, name, re.IGNORECASE)), None)


@dataclass(frozen=True)
class Vendor:
    """A maker of GPUs: how its architectures are named, and how code for them is compiled and read."""

    name: str
    pattern: str
    """A regular expression for the names of architectures, with groups for the major and minor version."""
    warp: int
    """Threads of a warp, or wavefront."""
    triton_backend: str
    form: str
    """The form of a compiled kernel that is read, by Triton's name."""
    reader: str
    """`module:function` that reads the kernels of this form."""
    languages: tuple[str, ...] = ()
    """The languages that compile for it here; empty for all."""
    has_others: bool = False
    """Whether compilers take architectures that are not in the table, between its oldest and its newest."""
    only_prints_errors: bool = False
    """Whether Triton's compiler prints an error such as that of inline assembly, leaves the code out and goes on."""


VENDORS = (
    Vendor(
        "NVIDIA",
        r"sm_(\d+)(\d)[af]?",
        warp=32,
        triton_backend="cuda",
        form="cubin",
        reader="fib_rmsnorm.inspection.disassembly:read_kernels",
        has_others=True,
    ),
    Vendor(
        "AMD",
        r"gfx(\d+)(\d)[0-9a-f]",
        warp=64,
        triton_backend="hip",
        form="amdgcn",
        reader="fib_rmsnorm.inspection.amd_assembly:read_kernels",
        languages=("triton",),
        only_prints_errors=True,
    ),
)


@dataclass(frozen=True)
class Architecture:
    """The limits of one architecture. Its multiprocessors are AMD's compute units, its shared memory is LDS."""

    name: str
    max_threads: int
    """Limit of resident threads per multiprocessor."""
    max_blocks: int
    """Limit of resident blocks per multiprocessor."""
    shared_bytes: int
    """Shared memory per multiprocessor, in bytes."""
    shared_unit: int = 128
    """Shared memory is allocated to blocks in multiples of this many bytes."""
    reserved_shared_bytes: int = 0
    """Shared memory that the system reserves in each block."""
    scalar_registers: int | None = None
    """Registers of a subpartition that hold one value for a whole warp; None where they limit nothing."""

    @property
    def vendor(self) -> Vendor:
        """Its maker."""
        return vendor_of(self.name)

    @property
    def model(self) -> GpuModel:
        """The GPU model that represents the architecture; it adds the L2 size and the number of multiprocessors."""
        return next(model for model in GPU_MODELS if model.arch == self.name)

    @property
    def max_shared_bytes(self) -> int:
        """The most shared memory that one block may use."""
        return self.shared_bytes - self.reserved_shared_bytes

    @property
    def max_warps(self) -> int:
        """Limit of resident warps per multiprocessor."""
        return self.max_threads // self.vendor.warp

    @property
    def registers(self) -> int:
        """Registers of a multiprocessor, one value of one thread each."""
        return _SUBPARTITIONS * _LANE_REGISTERS * self.vendor.warp


_ARCHITECTURES = (
    Architecture("sm_70", 2048, 32, 96 * _KIB, 256),
    Architecture("sm_75", 1024, 16, 64 * _KIB, 256),
    Architecture("sm_80", 2048, 32, 164 * _KIB, reserved_shared_bytes=_KIB),
    Architecture("sm_86", 1536, 16, 100 * _KIB, reserved_shared_bytes=_KIB),
    Architecture("sm_87", 1536, 16, 164 * _KIB, reserved_shared_bytes=_KIB),
    Architecture("sm_89", 1536, 24, 100 * _KIB, reserved_shared_bytes=_KIB),
    Architecture("sm_90", 2048, 32, 228 * _KIB, reserved_shared_bytes=_KIB),
    Architecture("sm_100", 2048, 32, 228 * _KIB, reserved_shared_bytes=_KIB),
    Architecture("sm_103", 2048, 32, 228 * _KIB, reserved_shared_bytes=_KIB),
    Architecture("sm_120", 1536, 24, 100 * _KIB, reserved_shared_bytes=_KIB),
    Architecture("sm_121", 1536, 24, 100 * _KIB, reserved_shared_bytes=_KIB),
    # 8 waves of 64 threads on each SIMD.
    Architecture("gfx90a", 2048, 32, 64 * _KIB, 512, scalar_registers=800),
    Architecture("gfx942", 2048, 32, 64 * _KIB, 512, scalar_registers=800),
    Architecture("gfx950", 2048, 32, 160 * _KIB, 1280, scalar_registers=800),
)


def vendor_of(arch: str) -> Vendor:
    """Find the maker of an architecture such as `sm_90a` or `gfx942`. Raises ValueError for another name."""
    for vendor in VENDORS:
        if re.fullmatch(vendor.pattern, arch):
            return vendor
    raise ValueError(f"not a GPU architecture: {arch!r} (expected a name such as sm_90 or gfx942)")


def capability_of(arch: str) -> tuple[int, int]:
    """Split `sm_90`, `sm_100a` or `gfx942` into the major and minor version, as torch gives them."""
    match = re.fullmatch(vendor_of(arch).pattern, arch)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def check_arch(arch: str) -> str:
    """`sm_90` of `sm_90`, `90` or `9.0`; `gfx942` of itself. Raises InputError if it is not an architecture."""
    name = re.sub(r"^(?:sm_?)?(\d{1,2})\.?(\d)(a?)$", r"sm_\1\2\3", arch.strip().lower())
    try:
        vendor = vendor_of(name)
    except ValueError:
        raise InputError(f"{arch!r} is not a GPU architecture: write it like sm_90 or gfx942") from None
    names = [each.name for each in _ARCHITECTURES if each.vendor == vendor]
    oldest, newest = capability_of(names[0]), capability_of(names[-1])
    if name not in names and not (vendor.has_others and oldest <= capability_of(name) <= newest):
        choice = f"from {names[0]} to {names[-1]}" if vendor.has_others else f"of {', '.join(names)}"
        raise InputError(f"{arch!r} is not a supported GPU architecture: choose one {choice}")
    return name


def find_architecture(arch: str) -> Architecture:
    """Return the limits of an architecture such as `sm_90`; an unknown one gets those of the nearest older one.

    Enough to compile and to answer a kernel that asks; `is_known` tells whether the limits are the architecture's own.
    """
    known = [each for each in _ARCHITECTURES if each.vendor == vendor_of(arch)]
    older = [each for each in known if capability_of(each.name) <= capability_of(arch)]
    return older[-1] if older else known[0]


def is_known(arch: str) -> bool:
    """Whether the table has the limits of an architecture such as `sm_90`."""
    return capability_of(find_architecture(arch).name) == capability_of(arch)


@dataclass(frozen=True)
class Occupancy:
    """The theoretical occupancy of a kernel, and what limits it."""

    blocks: int
    """Resident blocks per multiprocessor; with 0, the launch fails."""
    warps: int
    share: float
    """Resident warps as a share of the multiprocessor's limit."""
    limits: tuple[str, ...]
    """The resources that allow no further block: `warps`, `blocks`, (`scalar `)`registers` or `shared memory`."""


def occupancy(
    architecture: Architecture, threads: int, registers: int, shared_bytes: int, scalar_registers: int = 0
) -> Occupancy:
    """Compute the theoretical occupancy of blocks of `threads` threads that use `shared_bytes` each.

    By the rules of NVIDIA's cuda_occupancy.h, and of HIP's occupancy calculation.
    """
    warps = _round_up(threads, architecture.vendor.warp) // architecture.vendor.warp
    most = {
        "warps": architecture.max_warps // warps,
        "blocks": architecture.max_blocks,
        # Each warp takes its registers from one subpartition.
        "registers": _LANE_REGISTERS // _round_up(max(1, registers), _REGISTER_UNIT) * _SUBPARTITIONS // warps,
        # Before 8.0, and on AMD's, a block may need none.
        "shared memory": architecture.shared_bytes
        // max(1, _round_up(shared_bytes + architecture.reserved_shared_bytes, architecture.shared_unit)),
    }
    if architecture.scalar_registers:
        of_a_warp = _round_up(max(1, scalar_registers), _SCALAR_REGISTER_UNIT)
        most["scalar registers"] = architecture.scalar_registers // of_a_warp * _SUBPARTITIONS // warps
    blocks = min(most.values())
    limits = tuple(what for what, number in most.items() if number == blocks)
    return Occupancy(blocks, blocks * warps, blocks * warps / architecture.max_warps, limits)


def _round_up(number: int, unit: int) -> int:
    return -(-number // unit) * unit
