"""What all elements of an output together say: their distances from the right ones in ULP, and their mean error.

The tolerance of a 16-bit dtype is a unit in its last place, and a kernel whose numbers are all 0.04% too large stays
within it. Its output and the right one, both rounded to the dtype, differ in few elements, by a unit. But they differ
in one direction, and on average by the error before the rounding: rounding to nearest has no direction, and random
values lie anywhere between its ties. An error has a direction if it is away from zero or toward it, as of a wrong
factor, or if it is upward or downward whatever the sign, as of directed rounding.
"""

from __future__ import annotations

import math
from itertools import pairwise

import torch

from fib_rmsnorm.evaluation.judging.output_comparison import OutputPair, compare
from fib_rmsnorm.schema import Difference, UlpStatistics

_SIGNED = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_BUCKETS = ("0", "1", "2", "3-4", "5-8", "9-16", "17+")
_EDGES = (0, 1, 2, 4, 8, 16)
_CHUNK = 1 << 24
_STANDARD_ERRORS = 6.0
"""How far from zero a mean of errors without a direction may lie: one in 5e8 is beyond."""


def measure_ulp(pair: OutputPair) -> UlpStatistics | None:
    """Count the distances of an output from the right one, block by block; None for integers.

    A pair of which only one value is finite counts as 17+, and not in the mean.
    """
    expected = pair.expected
    if not expected.dtype.is_floating_point or expected.dtype.itemsize not in _SIGNED:
        return None
    at_most = torch.zeros(len(_EDGES), dtype=torch.int64)
    total, maximum, different = 0.0, 0, 0
    for differing in pair.list_differing():
        a, e = differing.actual, differing.expected
        different += differing.count
        finite, equal = _wide(a).isfinite() & _wide(e).isfinite(), _wide(a) == _wide(e)
        distance = (_ordered(a) - _ordered(e)).abs()
        distance = torch.where((a.isnan() & e.isnan()) | equal, 0, distance)
        # Not a histogram: on a GPU, all threads would add to the same few counters.
        at_most += torch.stack([(distance <= edge).sum() for edge in _EDGES]).cpu()
        distance = torch.where(finite, distance, 0)
        total += distance.sum(dtype=torch.float64).item()
        maximum = max(maximum, int(distance.max().item()) if distance.numel() else 0)
    zeros = expected.numel() - different
    totals = [0, *(count + zeros for count in at_most.tolist()), expected.numel()]
    histogram = {name: after - before for name, (before, after) in zip(_BUCKETS, pairwise(totals), strict=True)}
    return UlpStatistics(maximum, total / max(1, expected.numel()), histogram)


def _ordered(values: torch.Tensor) -> torch.Tensor:
    """Map floating-point numbers to integers in the same order, one step apart; both zeros become 0."""
    bits = values.contiguous().view(_SIGNED[values.dtype.itemsize]).to(torch.int64)
    sign = 1 << (8 * values.dtype.itemsize - 1)
    return torch.where(bits < 0, -(bits + sign), bits)


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
    wide = _wide(values)
    found = float(torch.linalg.vector_norm(wide, 1, dtype=torch.float64).item())
    return found if math.isfinite(found) else float(wide[wide.isfinite()].double().abs().sum().item())


def _wide(values: torch.Tensor) -> torch.Tensor:
    """Float8 as float32, because torch has few operators for it."""
    return values.float() if values.element_size() == 1 else values


def measure_difference(actual: torch.Tensor, other: torch.Tensor) -> Difference:
    """How far an output is from another of the same shape and dtype."""
    pair = OutputPair(actual, other)
    found = compare(pair, rtol=0.0, atol=0.0)
    return Difference(
        max_absolute=found.max_absolute_error,
        max_relative=found.max_relative_error,
        elements=found.elements,
        equal=found.elements - found.mismatched,
        ulp=measure_ulp(pair),
    )
