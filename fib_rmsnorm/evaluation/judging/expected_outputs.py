"""The right outputs of a call: those of a recognised operator in float64, or else those of the reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from fib_rmsnorm.evaluation.judging.judge_messages import JudgedCall
from fib_rmsnorm.evaluation.judging.output_bias import measure_bias
from fib_rmsnorm.evaluation.judging.output_comparison import compare
from fib_rmsnorm.evaluation.judging.output_differences import Comparison
from fib_rmsnorm.evaluation.judging.ulp import measure_ulp
from fib_rmsnorm.evaluation.tensors.inputs import Case, is_random
from fib_rmsnorm.evaluation.tensors.output_pair import OutputPair
from fib_rmsnorm.sandbox.output_transfer import OutputTransferError
from fib_rmsnorm.schema import Definition, Settings, UlpStatistics

_UNITS_OF_A_ROW = 32


@dataclass
class ExpectedOutputs:
    """The right outputs of a call, and how far others may be from them."""

    case: Case
    outputs: list[torch.Tensor]
    bounds: list[torch.Tensor | None]
    """The error that each element of an output may have beyond its dtype's tolerance, where terms cancel."""
    are_strict: list[bool]
    """Whether an output may have no error beyond its bound."""
    common_errors: list[float | None]
    """The relative error that all elements of an output may share; None if that is unknown."""
    alternatives: list[torch.Tensor | None]
    """Outputs whose elements are as right as those of `outputs`; None for one that has none."""
    is_random: bool
    """Whether the inputs are random, none hard or from a file."""
    non_finite_rows: list[torch.Tensor | None]
    """Which rows of an output belong to inputs that are not finite; None if none does."""
    reference: list[torch.Tensor] | None = None
    """The outputs of the Definition's reference, if `outputs` are more exact."""
    contradicted: bool = False
    """Whether `reference` is wrong by an operator that was recognised by the reference's outputs on other inputs."""
    _reference_ulp: dict[int, UlpStatistics | None] = field(default_factory=dict)

    def tolerance(self, index: int, settings: Settings) -> tuple[float | None, float | None]:
        """rtol and atol of the output of this number: the given ones, else None for those of its dtype."""
        default = 0.0 if self.are_strict[index] else None
        rtol, atol = settings.rtol, settings.atol
        return default if rtol is None else rtol, default if atol is None else atol

    def pair(self, index: int, actual: torch.Tensor) -> OutputPair:
        """The output of this number beside the nearest right one."""
        return OutputPair(actual, self.nearest(index, actual), self.bounds[index])

    def compare(
        self, index: int, pair: OutputPair, settings: Settings, kinds: Sequence[str] = (), dim: int = 0
    ) -> Comparison:
        """Compare the output of this number with the nearest right one.

        The mean error of all elements is looked at where the inputs are random, and with the dtype's own tolerances:
        in a constant row, right kernels may cross one tie of the rounding in all elements.
        """
        common = self.common_errors[index]
        found = compare(pair, *self.tolerance(index, settings), kinds, dim)
        if common is not None and self.is_random and settings.rtol is None and settings.atol is None:
            found.bias, found.allowed_bias = measure_bias(pair, found.atol, common)
        return found

    def reference_ulp(self, index: int) -> UlpStatistics | None:
        """The distances of the reference's output of this number, if it is known and another is more exact."""
        if self.reference is None:
            return None
        if index not in self._reference_ulp:
            self._reference_ulp[index] = measure_ulp(self.pair(index, self.reference[index]))
        return self._reference_ulp[index]

    def nearest(self, index: int, actual: torch.Tensor) -> torch.Tensor:
        """The right output of this number whose elements are nearest to those of `actual`."""
        right, other, rows = self.outputs[index], self.alternatives[index], self.non_finite_rows[index]
        if other is not None:
            is_nearer = (actual.double() - other.double()).abs() < (actual.double() - right.double()).abs()
            right = torch.where(is_nearer, other, right)
        return right if rows is None else _accept(actual, right, rows)


def make_expected(request: JudgedCall, case: Case, reference: list[torch.Tensor] | None) -> ExpectedOutputs:
    """The expected outputs: those of a recognised operator, which are exact, else those of the reference.

    Raises OutputTransferError if the outputs of the reference are needed and missing.
    """
    if request.recognition:
        exact = request.recognition.compute_exact(case.inputs)
        expected = ExpectedOutputs(
            case,
            outputs=[each.values for each in exact],
            bounds=[each.bound for each in exact],
            are_strict=[each.is_strict for each in exact],
            common_errors=[each.common_error for each in exact],
            is_random=_has_random_inputs(request, case),
            reference=reference,
            alternatives=[each.alternative for each in exact],
            non_finite_rows=_find_non_finite_rows(request.definition, case),
        )
        probed = [] if request.recognition.is_own or reference is None else reference
        expected.contradicted = any(
            expected.compare(index, expected.pair(index, output), Settings()).is_wrong
            for index, output in enumerate(probed)
        )
        return expected
    if reference is None:
        raise OutputTransferError("the outputs of the reference are missing")
    count = len(reference)
    nones: list[torch.Tensor | None] = [None] * count
    return ExpectedOutputs(
        case,
        reference,
        bounds=[_bound_sums(output) for output in reference],
        are_strict=[False] * count,
        common_errors=[None] * count,
        is_random=False,
        alternatives=nones,
        non_finite_rows=nones,
    )


def _bound_sums(output: torch.Tensor) -> torch.Tensor | None:
    """The error that elements of the reference's output and of a right one may have where terms cancel.

    Nobody knows how large the terms of their sums are, but the largest element of a row, along the last dimension,
    tells (of all, if rows have one): of 4096 random products, added one after the other in float32, the sum is off by
    2^-18 of that.
    """
    if not output.is_floating_point() or output.element_size() == 1 or not output.dim() or not output.numel():
        return None
    wide = torch.promote_types(output.dtype, torch.float32)
    sizes = output.abs().nan_to_num(nan=0.0, posinf=0.0).to(wide)
    largest = sizes.amax(dim=-1, keepdim=True) if output.shape[-1] > 1 else sizes.amax()
    return (largest * (_UNITS_OF_A_ROW * torch.finfo(wide).eps)).expand(output.shape).contiguous()


def _has_random_inputs(request: JudgedCall, case: Case) -> bool:
    tensors = [name for name, value in case.inputs.items() if isinstance(value, torch.Tensor)]
    return case.kind != "hard" and all(is_random(request.workload, name) for name in tensors)


def _find_non_finite_rows(definition: Definition, case: Case) -> list[torch.Tensor | None]:
    """For each output, which of its rows belong to inputs that are not finite; None if none does.

    Only in a case that is made of them: nobody looks through the inputs of others.
    """
    if case.explains or case.row_axis is None:
        return [None] * len(definition.outputs)
    rows = _find_rows(definition, case.inputs, case.row_axis)
    return [_spread(rows, spec.shape or (), case.row_axis) for spec in definition.outputs.values()]


def _accept(actual: torch.Tensor, right: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """`right`, with those elements of `actual` that are as right in these rows, whose inputs are not finite.

    The formula gives a NaN, an infinity, or a zero: RMSNorm of an infinity is a NaN, and 0 in all other columns, as
    rstd is 0. Right kernels give another value that is not finite, or a NaN instead of such a zero where they refine
    an approximate root by Newton's method. None gives a number where the formula gives none.
    """
    is_finite = actual.double().isfinite()
    is_as_right = ~right.double().isfinite() & ~is_finite | (right.double() == 0) & actual.double().isnan()
    return torch.where(rows & is_as_right, actual, right)


def _find_rows(definition: Definition, inputs: dict[str, Any], row_axis: str) -> torch.Tensor:
    """Whether any input of each row is not finite."""
    found = [
        ~inputs[name].movedim(spec.shape.index(row_axis), 0).flatten(1).isfinite().all(dim=1)
        for name, spec in definition.inputs.items()
        if spec.shape and row_axis in spec.shape and len(spec.shape) > 1 and inputs[name].is_floating_point()
    ]
    return torch.stack(found).any(dim=0)


def _spread(rows: torch.Tensor, shape: Sequence[str], row_axis: str) -> torch.Tensor | None:
    """One flag for each row, in a shape that broadcasts over an output; None if it has no rows, or no flag is set."""
    if row_axis not in shape or not rows.any():
        return None
    return rows.view([-1 if axis == row_axis else 1 for axis in shape])
