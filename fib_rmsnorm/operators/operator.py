"""The interface of an operator, which is what `define` and evaluations need beyond a Definition, and those known.

An operator is an instance of a subclass of `Operator` in a file of this package, whose `OPERATORS` it is in; nothing
else has to know it. It never sees the names of a Definition's tensors and axes: it names them by the parts that they
play, such as `x`, `weight` and `rows`.
"""

from __future__ import annotations

import importlib
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.operators.late_torch import torch

if TYPE_CHECKING:
    from fib_rmsnorm.schema import Definition


Inputs = Mapping[str, Any]
"""Inputs and constants of a call by their parts: tensors and numbers."""


@dataclass(frozen=True)
class Mistake:
    """A usual wrong formula of an output, for some rows and columns of a call."""

    sentence: str
    """The mistake and its fix; the same in every call."""
    parts: int
    """The number of mistakes that the formula combines."""
    compute: Callable[[], torch.Tensor]
    """Computes the output's elements, [rows, columns]."""
    slack: float = 0.0
    """The relative error that elements of rows may have because a compiler chooses the order of a sum."""


@dataclass(frozen=True)
class Option:
    """An option of `define` for this operator. Its values have the type of its default: int, float or str."""

    name: str
    default: int | float | str
    help: str


@dataclass(frozen=True)
class Scalar:
    """A scalar input: the value in generated Workloads and probes, and the least one that means something."""

    value: float
    least: float = float("-inf")


@dataclass(frozen=True)
class Parts:
    """The parts that a Definition's tensors and axes can play in an operator, by their shapes and dtypes."""

    tensors: dict[str, str]
    """The name of the input or output that plays each part; a part that is a constant is missing."""
    axes: dict[str, str]
    row_axes: tuple[str, ...] = field(default=(), kw_only=True)
    """The axes that count the rows together, if they are several: of [batch, sequence, hidden] the first two."""


@dataclass(frozen=True)
class HardCase:
    """A set of inputs that is made to break wrong kernels.

    `row_kinds[r % len(row_kinds)]` says why row r of the outputs is hard, so that a failure message can name it. Rows
    are counted along the axis `rows`, an output's first; an output without this axis has none.
    """

    name: str
    inputs: dict[str, Any]
    row_kinds: tuple[str, ...]
    explains: bool = True
    """Whether a wrong output of this case can show which usual mistake a kernel makes."""


@dataclass(frozen=True)
class Cost:
    """The number of floating-point operations of a Workload."""

    flops: int
    how: str
    """A description of how they are counted."""


@dataclass(frozen=True)
class ExactOutput:
    """The right values of an output, computed in float64 and rounded once to its dtype."""

    values: torch.Tensor
    bound: torch.Tensor | None = None
    """The error that each element may have beyond its dtype's tolerance, at least 0, in the shape of the values.

    A sum whose terms cancel has none of the digits that its dtype could hold: k * eps * sum(|terms|), where eps is the
    machine epsilon of the precision that a correct kernel computes in. None if nothing cancels.
    """
    is_strict: bool = False
    """Whether `bound` is all of the error that an element may have: the tolerance of a dtype of few digits, such as
    float8, is a whole step, which would hide what is 10% off."""
    common_error: float | None = None
    """The relative error that all elements may share, such as that of a row's statistic in float32. More is a bias: an
    error that the tolerance of each element hides. None if nobody knows one."""
    alternative: torch.Tensor | None = None
    """Values that are as right as these, element by element, where the formula rounds before its end."""


class Operator(ABC):
    """Knowledge of one operator. Inputs, sizes and constants are named by their parts."""

    name: ClassVar[str]
    """The start of the names of its own Definitions."""
    formula: ClassVar[str]
    """The formula that it computes, in a line."""
    options: ClassVar[tuple[Option, ...]]
    """The options of `define`, by which `define` of this class makes a Definition."""
    arguments: ClassVar[tuple[str, ...]]
    """The parts of the inputs of its own reference, in order."""
    reference: ClassVar[str]
    """The source of its own reference."""
    scalars: ClassVar[Mapping[str, Scalar]] = {}
    """The parts that are scalar inputs, or constants of a reference."""
    probe_sizes: ClassVar[Mapping[str, int]]
    """The sizes of variable axes for which a reference is probed."""
    derived: ClassVar[tuple[str, ...]] = ()
    """The parts that are random inputs in name only: `derive_inputs` makes them from the others."""

    @abstractmethod
    def define(self, *args: Any, **options: Any) -> Definition:
        """Make a Definition from values of the options. Raises InputError for one that cannot be."""

    @abstractmethod
    def list_parts(self, definition: Definition) -> list[Parts]:
        """Match `definition` by its shapes and dtypes alone: the likeliest match first, none if they do not fit.

        There are several where tensors of one shape can play the same parts.
        """

    @abstractmethod
    def count_cost(self, sizes: Mapping[str, int]) -> Cost:
        """Count the operations of the formula as written, for a Workload of these sizes."""

    @abstractmethod
    def compute_exact(self, inputs: Inputs, dtypes: Mapping[str, torch.dtype]) -> Mapping[str, ExactOutput]:
        """Compute each output from inputs and constants in float64 and round it once to its dtype.

        `dtypes` are those of the outputs that the Definition has.
        """

    def define_by_name(self, name: str) -> Definition | None:
        """Make this operator's Definition of this name; None if it gives no Definition this name."""
        return None

    def define_like(self, sizes: Mapping[str, int], dtypes: Mapping[str, str]) -> Definition:
        """Make its own Definition of these sizes of constant axes and dtypes of parts.

        Raises InputError that says why it has none.
        """
        raise InputError(f"{self.name} has no Definition of its own by sizes and dtypes")

    def suggest_constants(self, parts: Parts, literals: Iterable[float]) -> list[dict[str, float]]:
        """Suggest values for the parts that are constants, given the numbers that a reference's source contains."""
        return [{}]

    def derive_inputs(self, inputs: Inputs) -> Mapping[str, torch.Tensor]:
        """Make the inputs that must fit the others, such as the rstd that belongs to an x: all those in `derived`.

        A part that is a constant is missing in `inputs`.
        """
        return {}

    def write_kernel(self, dtypes: Mapping[str, str], language: str) -> str | None:
        """Write a plain kernel to start from, which takes `arguments` and the outputs; None if none has these dtypes.

        `language` is one of `fib_rmsnorm.languages.KERNEL_LANGUAGES`.
        """
        return None

    def count_hard_cases(self, sizes: Mapping[str, int], constants: Mapping[str, float]) -> int:
        """The number of hard cases for a Workload of these sizes."""
        return 0

    def make_hard_case(self, inputs: Inputs, constants: Mapping[str, float], index: int, seed: str) -> HardCase:
        """Make hard case `index` from the Workload's generated inputs, without changing them or the constants.

        What is random in it, such as another eps, comes from the `seed`, which is the Workload's uuid.
        """
        raise NotImplementedError

    def choose_awkward_sizes(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Choose sizes of variable axes near `sizes`, but without the factors that benched sizes and tiles share."""
        return {}

    def mistakes(self, output: str, inputs: Inputs, rows: torch.Tensor, columns: torch.Tensor) -> Iterable[Mistake]:
        """The usual wrong formulas of one output, always in the same order, to be compared with a wrong one.

        They compute its elements in the rows and columns with these numbers. Rows are counted along the axis `rows`,
        which must be the output's first, and columns along all others, flattened. An output without the axis `rows`,
        such as the gradient of a weight, is a single row; one that has no other axis has a single column.
        """
        return ()


@cache
def list_operators() -> tuple[Operator, ...]:
    """The known operators: the `OPERATORS` of the modules of each family's package, then of this package's own."""
    package = __name__.rpartition(".")[0]
    names = [each.name for each in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}.")]
    found = map(importlib.import_module, sorted(names, key=lambda name: name.count("."), reverse=True))
    return tuple(operator for module in found for operator in getattr(module, "OPERATORS", ()))


def find_operator(name: str) -> Operator:
    """The operator of this name. Raises InputError if there is none."""
    known = {operator.name: operator for operator in list_operators()}
    if name not in known:
        raise InputError(f"unknown operator {name!r} (available: {', '.join(known)})")
    return known[name]
