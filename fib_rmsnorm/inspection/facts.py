"""The facts of compiled code, one model for each, from the process that compiles to the report, and how it is asked.

Compilers run code of the Solution, so what their process answers is validated again where it arrives.
"""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, NonNegativeInt, PositiveInt

from fib_rmsnorm.machine.gpu_models import Occupancy
from fib_rmsnorm.sandbox.asking import Request
from fib_rmsnorm.schema import CheckedDefinition, Solution, Workload

Direction = Literal["load", "store"]
Size = tuple[PositiveInt, PositiveInt, PositiveInt]


class _Fact(BaseModel):
    model_config = ConfigDict(frozen=True)


class Access(_Fact):
    """Equal instructions that read or write global memory."""

    does: Direction
    bytes: int
    """Bytes per thread and instruction."""
    count: int
    in_loop: bool
    """Whether they lie in a loop; the code does not say how often it runs."""


class Loop(_Fact):
    """The instructions of one pass of a loop without inner loops, as compiled; branches are counted as not taken."""

    instructions: int
    loads: int
    """Loads of global memory."""
    load_bytes: int
    """Bytes that these load for one thread."""
    stores: int
    """Stores to global memory, and atomics."""
    barriers: int


class Code(_Fact):
    """One kernel's instructions."""

    instructions: dict[str, int]
    """How many there are of each kind; kinds that do not occur are left out."""
    accesses: tuple[Access, ...]
    loops: int
    inner_loops: tuple[Loop, ...]
    """The loops without inner loops, in the order of the code."""


class Kernel(_Fact):
    """One kernel, compiled for one architecture; None for what could not be read."""

    kernel: str
    arch: str
    registers: int | None = None
    """Registers per thread."""
    scalar_registers: int | None = None
    """Registers per warp that hold one value for all its threads, where a GPU has few of them."""
    spill_bytes: int | None = None
    """Local memory of a thread: spilled registers, and arrays that registers cannot hold."""
    shared_bytes: int | None = None
    """Shared memory per block, in bytes."""
    code: Code | None = None
    """Its instructions."""
    wraps_at: str | None = None
    """The line of the source whose result, part of an offset, wraps in 32 bits beyond 2^31 elements."""


class Launch(_Fact):
    """One launch of a kernel."""

    kernel_number: NonNegativeInt
    """The kernel's position among those that were compiled."""
    grid: Size
    block: Size
    dynamic_shared_bytes: NonNegativeInt = 0
    """Shared memory asked for at the launch, beyond what the kernel's resources say."""
    block_bytes: dict[Direction, NonNegativeInt] | None = None
    """Bytes that a block loads and stores, its loops counted; None where the language or the loops do not tell."""


class Compile(Request, doing="compiling"):
    """Compile a Solution's kernels, for a GPU architecture and Workloads."""

    definition: CheckedDefinition
    solution: Solution
    workloads: list[Workload]
    """The Workloads whose launches are wanted. Kernels in Python are compiled for them."""
    arch: str
    cache: Path


class Compiled(_Fact):
    """The answer: what can be read off a Solution's compiled code."""

    kernels: tuple[Kernel, ...]
    launches: tuple[tuple[Launch, ...], ...] = ()
    """For each Workload, in their order."""
    notes: tuple[str, ...] = ()


class Traffic(_Fact):
    """Memory transactions per row: requests of warps, and the sectors of 32 bytes that they ask for."""

    load_requests_per_row: float
    load_sectors_per_row: float
    store_sectors_per_row: float


class ExplainedLaunch(Launch):
    """A launch on a Workload, and what it means for a GPU."""

    axes: dict[str, int]
    kernel: str
    occupancy: Occupancy | None
    waves: float | None
    """None if a block does not fit, or its occupancy is unknown."""
    traffic: Traffic | None


class Work(_Fact):
    """The work that a Definition asks for on a Workload, whatever computes it."""

    axes: dict[str, int]
    flops: int | None
    bytes_moved: int
    flops_per_byte: float | None
    least_sectors_per_row: float | None
    input_sectors_per_row: float | None
    """The sectors that a kernel loads if it reads every input once for each row, shared inputs included."""


class Conclusion(_Fact):
    """A conclusion from the facts."""

    about: str
    """The kernel, function or launch."""
    finding: str
    """The finding, with its number."""
    advice: str
    """The remedy."""


class Explanation(_Fact):
    """Everything `fib-rmsnorm explain` says of a Solution."""

    solution: str
    definition: str
    language: str
    arch: str
    chip: str | None = None
    """None for an architecture without a known GPU model, like the next."""
    multiprocessors: int | None = None
    kernels: tuple[Kernel, ...]
    launches: tuple[ExplainedLaunch, ...] = ()
    work: tuple[Work, ...] = ()
    conclusions: tuple[Conclusion, ...] = ()
    notes: tuple[str, ...] = ()
