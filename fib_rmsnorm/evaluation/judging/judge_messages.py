"""What the scheduler asks of the judge, and what the judge answers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from fib_rmsnorm.evaluation.judging.output_comparison import Comparison
from fib_rmsnorm.evaluation.judging.ulp import UlpStatistics
from fib_rmsnorm.sandbox.asking import Request
from fib_rmsnorm.schema import Definition, Settings, Workload


class Compare(Request):
    """Compare the outputs that a worker transferred with the right ones.

    They belong to a `case`, or to the timed call whose inputs are those of a `number`.
    """

    doing: ClassVar[str] = "comparing"
    do: Literal["compare"] = "compare"
    definition: Definition
    workload: Workload
    case: int | None = None
    number: int | None = None
    earlier: list[int] = Field(default_factory=list)
    """Numbers of the inputs of some timed calls before it."""
    device: str
    dataset: Path | None
    settings: Settings
    outputs_path: str
    explain: bool
    """Whether wrong outputs are to be explained, if they tell how they came about."""


@dataclass(frozen=True)
class OutputVerdict:
    """One output beside the right one."""

    comparison: Comparison
    ulp: UlpStatistics | None
    """None for right outputs of timed calls, of which there are hundreds."""
    reference_ulp: UlpStatistics | None
    """Of the Definition's reference, where the right output is more exact; for the Workload's own inputs only."""


@dataclass(frozen=True)
class Verdict:
    """What the judge found about one call."""

    case: str
    missing: str | None
    """Why there are no outputs to judge."""
    outputs: list[OutputVerdict]
    hint: str | None
    """How wrong outputs came about."""
