"""The scheduler's requests to the judge, and the judge's answers. Without torch: the scheduler imports them too."""

from dataclasses import dataclass, field
from pathlib import Path

from pydantic import Field

from fib_rmsnorm.operators import Recognition
from fib_rmsnorm.sandbox.asking import DeviceMemory, Request
from fib_rmsnorm.schema import (
    CaseKind,
    CheckedDefinition,
    Difference,
    Peer,
    Recurrence,
    Settings,
    UlpStatistics,
    Workload,
)


@dataclass
class Total:
    """A measure of all elements of an output, or of one of its rows, which may each be within the tolerance."""

    value: float = 0.0
    allowed: float = float("inf")
    """The largest magnitude in right outputs: more than float32's errors and chance explain is wrong."""
    row: list[int] | None = None
    """The indices of the row along all axes but the last; None for the whole output."""

    @property
    def is_wrong(self) -> bool:
        """Whether the elements are wrong together."""
        return abs(self.value) > self.allowed


@dataclass
class Comparison:
    """The differences between one output and the expected one."""

    max_absolute_error: float = 0.0
    max_relative_error: float = 0.0
    mismatched: int = 0
    elements: int = 0
    rtol: float = 0.0
    atol: float = 0.0
    worst: str = ""
    """A description of the element whose error exceeds its bound the most; empty if none does."""
    failing_kinds: list[str] = field(default_factory=list)
    wrong_rows: list[int] = field(default_factory=list)
    """The numbers of the first rows with a wrong element."""
    bias: Total = field(default_factory=Total)
    """By how much the magnitudes of the elements are too large, relative to their sum; less than 0 if too small."""
    roundings: Total = field(default_factory=Total)
    """How many elements another number than the right one was rounded to."""
    ulp: UlpStatistics | None = None
    """Distances of the output; None for right outputs of timed calls, of which there are hundreds."""
    reference_ulp: UlpStatistics | None = None
    """Distances of the reference's output, if the expected one is more exact; only for the Workload's own inputs."""
    against: Difference | None = None
    """How the output differs from that of the Verdict's peer."""

    @property
    def is_wrong(self) -> bool:
        """Whether an element exceeds its bound, or all of them together."""
        return self.mismatched > 0 or self.bias.is_wrong or self.roundings.is_wrong


@dataclass(frozen=True)
class PossibleMistake:
    """A usual mistake of kernels that would give a wrong output of a call."""

    sentence: str
    parts: int
    """The number of mistakes that it combines."""
    is_shown: bool = True
    """Whether a call told it from the right answer: within a formula's slack may be both."""


class TakeOutputs(Request, doing="copying outputs"):
    """Copy outputs that a worker offers in a GPU's memory, for the comparison that follows."""

    device: str
    memory: list[DeviceMemory]
    are_expected: bool
    """Whether they are the outputs of the Definition's reference."""


class Expect(Request, doing="computing the right outputs"):
    """Compute what the comparisons that follow need: the expected outputs of the call on a `case`.

    A comparison can be of the timed calls instead whose inputs have these `numbers`.
    """

    definition: CheckedDefinition
    recognition: Recognition | None
    """The operator that knows the exact answer; None if the outputs of the reference are the expected ones."""
    workload: Workload
    case: int | None = None
    few_rows: bool = False
    """Whether the calls are of few rows, because an interpreter runs the kernel."""
    numbers: list[int] = Field(default_factory=list)
    device: str
    dataset: Path | None
    expected_file: int | None = None
    """The index of the request's file that holds the outputs of the Definition's reference: they are the
    expected ones without a recognised operator. None if they were taken from a GPU's memory, or are not needed."""


class Compare(Expect, doing="comparing"):
    """Compare the outputs that a worker transferred with the expected ones."""

    settings: Settings
    outputs_file: int | None = None
    """The index of the request's file that holds the outputs; None if they were taken from a GPU's memory."""
    suspects: dict[str, list[PossibleMistake]] | None = None
    """For each output that was wrong: the mistakes that would give it in all cases since. None if all were right."""
    strided: dict[str, int] = Field(default_factory=dict)
    """The inputs that were views of larger tensors in the call, each with the stride of its last axis."""
    worker: int | None = None
    """The number of the process that called, by which its outputs of another case are found."""
    keep_as: Peer | None = None
    """Whose outputs these are, if those of other Solutions on the same case are to be compared with them."""


class MeasureRounding(Compare, doing="measuring how much the reference rounds"):
    """Compare what the reference computes in float64, which a worker transferred, with its own outputs."""


@dataclass(frozen=True)
class Verdict:
    """The judge's findings on one call."""

    case: str
    kind: CaseKind
    missing: str | None
    """The reason why there are no outputs to judge."""
    outputs: dict[str, Comparison]
    hint: str | None
    """The cause of wrong outputs, if the judge found it."""
    mistakes: dict[str, list[PossibleMistake]]
    """For each output that is wrong or was: the usual mistakes, of those suspected before, that would give it. Several
    can be equal on one call's inputs."""
    contradicted: bool = False
    """Whether the reference's outputs are wrong by the operator that its outputs on other inputs showed."""
    peer: Peer | None = None
    """The Solution with whose outputs these were compared too."""
    recurrence: Recurrence | None = None
    """How rows of the first case compare with those before; None if none recurs."""


@dataclass(frozen=True)
class Verdicts:
    """The judge's findings on each call."""

    verdicts: list[Verdict]
