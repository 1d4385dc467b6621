"""The right outputs of a call: those of a recognised operator in float64, or else those of the reference."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch

from fib_rmsnorm.evaluation.judging.judge_messages import Comparison, Expect
from fib_rmsnorm.evaluation.judging.output_comparison import (
    OutputPair,
    compare,
    count_roundings,
    measure_bias,
    measure_ulp,
)
from fib_rmsnorm.evaluation.tensors.inputs import Case, is_random
from fib_rmsnorm.operators import ExactOutput, Recognition
from fib_rmsnorm.sandbox.output_transfer import OutputTransferError
from fib_rmsnorm.schema import Definition, Settings, UlpStatistics

Outputs = dict[str, torch.Tensor]
"""The outputs of a call, or what belongs to them, by name."""

_UNITS_OF_A_ROW = 32
_STANDARD_DEVIATIONS = 16.0
"""How far elements may be from the reference's, in units of its own usual error: those that are rounded otherwise have
twice this error, and where large factors meet a multiple; of 2 million, 13 units were the most."""
_SHARED_BY_A_ROW = 1 / 16
"""The error that a row's elements may share, in units of the dtype's precision, if the reference alone judges: more
than approximate functions have, and less than a statistic that is rounded to the dtype."""
_AS_BIASED = 1.25
"""How far the mean error of a row of other inputs may be, in units of that of the reference's worst row: elements of
bfloat16 have few digits, and those of one row with the same digits are rounded alike."""
_LEAST_ROWS = 16
"""So many rows show how large the errors are that elements of a row share in the reference."""
_OF_A_LOSS = 1e-4
_ROUNDED = (torch.float16, torch.bfloat16)
"""The dtypes that float32's errors hardly ever change: of float32, nearly all elements differ, and float8 has bounds of
its own for each."""


@dataclass(frozen=True)
class Rounding:
    """How far an output of a reference is from what the reference computes in float64."""

    share: float
    """The root of the mean square of all errors, each relative to the largest element of its row."""
    bias: float | None
    """The mean error of the row in which it is further from zero than chance explains, if it is; None if that is not
    known."""


@dataclass
class ExpectedOutput:
    """The right values of an output, and how far others may be from them."""

    exact: ExactOutput
    non_finite_rows: torch.Tensor | None = None
    """A mask of the rows whose inputs are not finite; None if there are none."""
    reference: torch.Tensor | None = None
    """The output of the Definition's reference, if the exact one is another."""
    has_random_inputs: bool = False
    """Whether the inputs of the call are random, none hard or from a file."""
    alike: float = 1.0
    """How many elements of a row round alike, since they were the same number but for a power of 2."""
    is_exact: bool = True
    """Whether it is more than the output of the reference."""

    def pair(self, actual: torch.Tensor, shape: Sequence[int] | None = None) -> OutputPair:
        """An output beside the nearest right one; `shape` is its own, if its rows have one axis here."""
        return OutputPair(actual, self.nearest(actual), self.exact.bound, shape)

    def compare(self, pair: OutputPair, settings: Settings, kinds: Sequence[str] = ()) -> Comparison:
        """Compare an output with the nearest right one.

        The mean errors of all elements and of each row, and the number of elements that differ, count where the inputs
        are random, and with the dtype's own tolerances: in a constant row, correct kernels may cross one tie of the
        rounding in all elements.
        """
        common = self.exact.common_error
        default = 0.0 if self.exact.is_strict else None  # None for that of the dtype
        rtol, atol = (default if each is None else each for each in (settings.rtol, settings.atol))
        found = compare(pair, rtol, atol, kinds)
        if common is not None and self.has_random_inputs and settings.rtol is None and settings.atol is None:
            # What cancels makes single elements of the reference imprecise, which have no direction.
            found.bias = measure_bias(pair if self.is_exact else replace(pair, bound=None), found.atol, common)
            if self.is_exact and pair.expected.dtype in _ROUNDED:
                found.roundings = count_roundings(pair, found.roundings.value, common, self.alike)
        return found

    @cached_property
    def reference_ulp(self) -> UlpStatistics | None:
        """The distances of the reference's output, if it is known and the exact one is another."""
        return None if self.reference is None else measure_ulp(self.pair(self.reference))

    def nearest(self, actual: torch.Tensor) -> torch.Tensor:
        """The right output whose elements are nearest to those of `actual`."""
        right, other, rows = self.exact.values, self.exact.alternative, self.non_finite_rows
        if other is not None:
            is_nearer = (actual.double() - other.double()).abs() < (actual.double() - right.double()).abs()
            right = torch.where(is_nearer | right.isnan() & ~actual.isnan(), other, right)
        return right if rows is None else _accept(actual, right, rows)


@dataclass
class ExpectedOutputs:
    """The right outputs of a call."""

    case: Case
    outputs: dict[str, ExpectedOutput]
    contradicted: bool = False
    """Whether the reference is wrong by an operator that was recognised by the reference's outputs on other inputs."""


def measure_rounding(own: torch.Tensor, wide: torch.Tensor) -> Rounding | None:
    """How far an output of the reference is from that of the reference in float64; None if it has no such errors."""
    if (largest := _largest_of_rows(own)) is None:
        return None
    errors = (own.to(largest) - wide.to(largest)) / largest
    share = errors.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0).square().mean().sqrt().item()
    rows = own.numel() // own.shape[-1] if own.dim() else 1
    if own.dtype not in _ROUNDED or rows < _LEAST_ROWS:
        return Rounding(share, None)
    found = measure_bias(OutputPair(own, wide), 0.0, 0.0)
    return Rounding(share, abs(found.value) if found.is_wrong else 0.0)


def expect_reference(request: Expect, output: torch.Tensor, rounding: Rounding | None) -> ExpectedOutput:
    """An output of the reference as the expected one, where it rounds as in the Workload's own inputs."""
    rounding = rounding or Rounding(0.0, None)
    common = rounding.bias
    if common is not None:
        common = max(_AS_BIASED * common, torch.finfo(output.dtype).eps * _SHARED_BY_A_ROW)
    exact = ExactOutput(output, _bound_sums(output, rounding.share * _STANDARD_DEVIATIONS), common_error=common)
    return ExpectedOutput(exact, has_random_inputs=_is_random(request), is_exact=False)


def _is_random(request: Expect) -> bool:
    """Whether no tensor of the inputs is from a file."""
    tensors = (name for name, spec in request.definition.inputs.items() if spec.shape is not None)
    return all(is_random(request.workload, name) for name in tensors)


def make_expected(
    request: Expect, case: Case, reference: Outputs | None, rounding: Mapping[str, Rounding]
) -> ExpectedOutputs:
    """The expected outputs: those of a recognised operator, which are exact, else those of the reference.

    Raises OutputTransferError if the outputs of the reference are needed and missing.
    """
    recognition = request.recognition
    if recognition is None:
        if reference is None:
            raise OutputTransferError("the outputs of the reference are missing")
        outputs = {name: expect_reference(request, each, rounding.get(name)) for name, each in reference.items()}
        return ExpectedOutputs(case, outputs)
    has_random_inputs = case.kind != "hard" and _is_random(request)
    reference = {name: recognition.fold(name, each) for name, each in (reference or {}).items()}
    rows = _find_non_finite_rows(request.definition, recognition, case)
    outputs = {
        name: ExpectedOutput(
            exact, rows.get(name), reference.get(name), has_random_inputs, _count_alike(case, exact.values)
        )
        for name, exact in recognition.compute_exact(case.inputs).items()
    }
    probed = {} if recognition.is_own else reference
    wrong = (outputs[name].compare(outputs[name].pair(each), Settings()).is_wrong for name, each in probed.items())
    return ExpectedOutputs(case, outputs, contradicted=any(wrong))


def _count_alike(case: Case, output: torch.Tensor) -> float:
    """How many elements of an output's row round alike, at most.

    That is one if an element is of several numbers. One of x alone, and of what its row shares, rounds as all elements
    of x with the same digits do, whatever their exponents. The most frequent digits are twice as frequent as the mean.
    """
    columns = output.shape[-1] if output.dim() else 1
    tensors = [each for each in case.inputs.values() if isinstance(each, torch.Tensor) and each.is_floating_point()]
    varying = [each for each in tensors if each.dim() and each.shape[-1] == columns]
    if len(varying) != 1:
        return 1.0
    return max(1.0, 2 * columns * torch.finfo(varying[0].dtype).eps)


def _bound_sums(output: torch.Tensor, share: float) -> torch.Tensor | None:
    """The error that elements of the reference's output and of a right one may have where terms cancel.

    Nobody knows how large the terms of their sums are, but the largest element of a row, along the last dimension,
    tells (of all, if rows have one): of 4096 random products, added one after the other in float32, the sum is off by
    2^-18 of that, and by `share` if the reference rounds them. A number alone, such as a loss, may be a small
    difference of large distances: of it, KernelBench's tolerance.
    """
    if (largest := _largest_of_rows(output)) is None:
        return None
    if not output.dim():
        return (_OF_A_LOSS + share) * (1 + largest)
    share = max(share, _UNITS_OF_A_ROW * torch.finfo(largest.dtype).eps)
    return (largest * share).expand(output.shape).contiguous()


def _largest_of_rows(output: torch.Tensor) -> torch.Tensor | None:
    """The largest magnitude of each row, in float32 at least; None of what is quantized or empty."""
    if not output.is_floating_point() or output.element_size() == 1 or not output.numel():
        return None
    sizes = output.abs().nan_to_num(nan=0.0, posinf=0.0).to(torch.promote_types(output.dtype, torch.float32))
    return sizes.amax(dim=-1, keepdim=True) if output.dim() and output.shape[-1] > 1 else sizes.amax()


def _find_non_finite_rows(definition: Definition, recognition: Recognition, case: Case) -> Outputs:
    """The masks of each output's rows that belong to inputs that are not finite, in a shape that broadcasts over it.

    What is summed over rows belongs to them if there are no others. Only in a case that is made of them: nobody looks
    through the inputs of others.
    """
    axis = recognition.row_axis
    if case.explains or axis is None:
        return {}
    inputs, outputs = (
        {name: recognition.fold_shape(name, spec.shape or ()) for name, spec in specs.items()}
        for specs in (definition.inputs, definition.outputs)
    )
    folded = recognition.fold_inputs(case.inputs)
    found = [
        ~folded[name].movedim(shape.index(axis), 0).flatten(1).isfinite().all(dim=1)
        for name, shape in inputs.items()
        if axis in shape and len(shape) > 1 and case.inputs[name].is_floating_point()
    ]
    rows = torch.stack(found).any(dim=0)
    return {
        name: (rows if axis in shape else rows.all()).view([-1 if each == axis else 1 for each in shape])
        for name, shape in outputs.items()
        if rows.any()
    }


def _accept(actual: torch.Tensor, right: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """`right`, with those elements of `actual` that are as right in these rows, whose inputs are not finite.

    The formula gives a NaN, an infinity, or a zero: RMSNorm of an infinity is a NaN, and 0 in all other columns, as
    rstd is 0. Right kernels give another value that is not finite, or a NaN instead of such a zero where they refine
    an approximate root by Newton's method. None gives a number where the formula gives none.
    """
    is_finite = actual.double().isfinite()
    is_as_right = ~right.double().isfinite() & ~is_finite | (right.double() == 0) & actual.double().isnan()
    return torch.where(rows & is_as_right, actual, right)
