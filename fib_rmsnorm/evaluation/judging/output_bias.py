"""Whether the elements of an output have a mean error: one that is within the tolerance of each.

The tolerance of a 16-bit dtype is a unit in its last place, and a kernel whose numbers are all 0.04% too large stays
within it. Its output and the right one, both rounded to the dtype, differ in few elements, by a unit. But they differ
in one direction, and on average by the error before the rounding: rounding to nearest has no direction, and random
values lie anywhere between its ties. An error has a direction if it is away from zero or toward it, as of a wrong
factor, or if it is upward or downward whatever the sign, as of directed rounding.
"""

from __future__ import annotations

import math

import torch

from fib_rmsnorm.evaluation.tensors.output_pair import OutputPair

_CHUNK = 1 << 24
_STANDARD_ERRORS = 6.0
"""How far from zero a mean of errors without a direction may lie: one in 5e8 is beyond."""


def measure_bias(pair: OutputPair, atol: float, common_error: float) -> tuple[float, float]:
    """By how much the elements of an output, or their magnitudes, are too large in sum, relative to the magnitudes of
    the right ones; and the most that right outputs have. Of both sums it is the one that is further from zero.

    The most is the relative error that their elements may share before they are rounded (`common_error`), what each
    may be off by beyond it (`atol`, and its bound), and chance: the standard error of a sum of independent errors is
    the root of the sum of their squares.
    """
    magnitude = sum(map(_sum_magnitudes, torch.split(pair.expected.reshape(-1), _CHUNK)))
    if not magnitude:
        return 0.0, math.inf
    outward = upward = squared = 0.0
    beyond = atol * pair.expected.numel()
    beyond += 0.0 if pair.bound is None else pair.bound.sum(dtype=torch.float64).item()
    for differing in pair.list_differing():
        a, e = differing.actual.double(), differing.expected.double()
        error = torch.where(a.isfinite() & e.isfinite(), a - e, 0.0)
        outward += (error * e.sign()).sum().item()
        upward += error.sum().item()
        squared += error.square().sum().item()
    further = max(outward, upward, key=abs)
    return further / magnitude, common_error + (beyond + _STANDARD_ERRORS * math.sqrt(squared)) / magnitude


def _sum_magnitudes(values: torch.Tensor) -> float:
    """The sum of the magnitudes of all finite values."""
    wide = values.float() if values.element_size() == 1 else values  # torch has few operators for float8
    found = float(torch.linalg.vector_norm(wide, 1, dtype=torch.float64).item())
    return found if math.isfinite(found) else float(wide[wide.isfinite()].double().abs().sum().item())
