"""The scheduler's requests to a worker, and the worker's answers.

Answers are plain dataclasses: a worker creates them beside untrusted code, where as little library code as possible
should run. The scheduler validates what arrives against the same types, since a solution's process can send anything.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field, FiniteFloat

from fib_rmsnorm.evaluation.timing.latency_statistics import ChainTimes
from fib_rmsnorm.evaluation.timing.timer import MAX_ATTEMPTS, Latency, Sample, Trial
from fib_rmsnorm.operators import Recognition
from fib_rmsnorm.sandbox.asking import DeviceMemory, OpenDevice, Request
from fib_rmsnorm.schema import CheckedDefinition, Solution, Workload

MAX_REASON = 500
"""The most characters of a reason that a worker may give."""
_MAX_OUTPUTS = 1000
_MOST_REVEALED = 16
_InputsNumber = Annotated[int, Field(ge=0, lt=1 << 63)]


class Build(Request, doing="building"):
    """Build a solution for a device."""

    definition: CheckedDefinition
    solution: Solution
    device: str
    dataset: Path | None
    """The folder to which the paths of safetensors inputs are relative."""
    cache: Path


class Prepare(OpenDevice, doing="opening the device"):
    """Open the device, and meanwhile start the compilers for a solution, of which no code runs yet."""

    solution: Solution
    cache: Path


class GetReady(Request, doing="starting"):
    """Load what the first build and the first calls on an open device will need, before a solution is there."""

    device: str
    language: str
    """The language that the solution will probably be written in."""
    definition: CheckedDefinition
    dataset: Path | None
    workload: Workload
    recognition: Recognition | None


@dataclass(frozen=True)
class Built:
    """The solution is built."""

    build_s: FiniteFloat


class Call(Request, doing="calling"):
    """Call the solution once on the inputs of a case, and transfer its outputs."""

    workload: Workload
    case: int
    recognition: Recognition | None
    """The operator that knows the hard cases, if there is one."""
    few_rows: bool = False
    """Whether all cases but the first have few rows, because an interpreter runs the kernel."""
    guarded: bool = False
    """Whether the processor guards the inputs, on a CPU: a fault ends the worker by a signal."""
    strided: dict[str, int] = Field(default_factory=dict)
    """The inputs that are views of larger tensors, with NaN between, each with the stride of its last axis."""


class CallFar(Request, doing="calling with more than 2^31 elements"):
    """Call the solution on a case whose rows lie beyond 2^31 elements in their tensors, and transfer their outputs."""

    workload: Workload
    case: int
    recognition: Recognition


class CallAsTimed(Request, doing="calling"):
    """Call a Definition's reference once on the inputs of each of some timed calls, and transfer all its outputs."""

    workload: Workload
    numbers: list[int]
    """The numbers of the inputs."""


@dataclass(frozen=True)
class Outputs:
    """The outputs of a call are transferred, or those of one call after the other."""

    memory: Annotated[list[DeviceMemory], Field(max_length=_MAX_OUTPUTS)] | None
    """The place of the outputs in the GPU's memory until the next request; None if they are in the process's file."""


@dataclass(frozen=True)
class Effects(Outputs):
    """The outputs of calls, and their side effects: the names of the inputs and outputs that they touched wrongly."""

    changed_inputs: list[str]
    overrun: list[str]
    """Outputs beyond whose ends something was written."""
    changed_outputs: list[str]
    """Outputs that changed after their call had returned."""


@dataclass(frozen=True)
class Called(Effects):
    """The solution was called and its outputs are transferred."""

    call_ms: Latency


class PrepareTiming(Request, doing="warming up"):
    """Prepare to time a Workload, and warm up."""

    workload: Workload
    warmup_runs: int
    budget_s: float
    judged_calls: int = 1
    """The number of timed calls that are chosen together to be judged, or all if they are fewer."""


@dataclass(frozen=True)
class TimingPrepared:
    """The solution is ready to be timed."""

    timer: str
    tick_ms: Latency
    operators: list[str] | None
    """The torch operators that the first call ran; None for solutions in Python, which may run any."""


class AttachTimer(Request, doing="attaching the timer"):
    """Have the timer ready for the first trial."""


class Time(Request, doing="timing"):
    """Time one trial."""

    trial: Trial


@dataclass(frozen=True)
class Timed:
    """One trial."""

    samples: Annotated[list[Sample], Field(min_length=1)]
    clock_ns: int
    """The system's clock at the end, as the worker read it; the scheduler compares it with its own reading."""
    repeated: Annotated[list[Annotated[str, Field(max_length=MAX_REASON)]], Field(max_length=MAX_ATTEMPTS - 1)]
    """Why earlier attempts at this trial failed."""
    queued: bool
    """Whether the GPU was held until the host had issued each call."""


class Reveal(Request, doing="judging timed calls"):
    """Transfer the outputs of the calls that were chosen from those timed since the last reveal."""


@dataclass(frozen=True)
class Revealed(Effects):
    """The outputs of timed calls are transferred."""

    numbers: Annotated[list[_InputsNumber], Field(max_length=_MOST_REVEALED)]
    """The numbers of the calls' inputs."""


class WriteOutputs(Request, doing="transferring outputs"):
    """Write the outputs of the last call to the file, because nobody can open the GPU's memory."""


class CountCosts(Request, doing="counting costs"):
    """Measure the costs of a call other than its latency."""


@dataclass(frozen=True)
class Costs:
    """The costs of a call other than its latency."""

    host_overhead_us: Latency | None
    """None on a CPU."""
    peak_memory_bytes: int


class TimeChain(Request, doing="timing in a CUDA graph"):
    """Time one trial of calls in a CUDA graph, between a producer and a consumer, after timing has ended."""

    workload: Workload
    dependent: bool
    """Whether the producers and the consumers are launched by programmatic dependent launch."""
    replays: int
    budget_s: float


@dataclass(frozen=True)
class ChainTimed:
    """One trial in a CUDA graph, or the reason why the solution's calls cannot be captured."""

    times: ChainTimes | None
    refused: Annotated[str, Field(max_length=MAX_REASON)] | None
    clock_ns: int
    """The system's clock at the end, as the worker read it; the scheduler compares it with its own reading."""


class RevealChain(Request, doing="judging calls in a CUDA graph"):
    """Transfer the outputs of one of the calls of the last trial in a CUDA graph."""


class EndTiming(Request, doing="finishing"):
    """Release the memory that timing took, and check once more for tampering."""
