"""Distances in units in the last place (ULP): the number of floating-point steps between two values."""

from __future__ import annotations

from itertools import pairwise

import torch

from fib_rmsnorm.evaluation.tensors.output_pair import OutputPair
from fib_rmsnorm.schema import UlpStatistics

_SIGNED = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
BUCKETS = ("0", "1", "2", "3-4", "5-8", "9-16", "17+")
_EDGES = (0, 1, 2, 4, 8, 16)


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
    histogram = {name: after - before for name, (before, after) in zip(BUCKETS, pairwise(totals), strict=True)}
    return UlpStatistics(maximum, total / max(1, expected.numel()), histogram)


def _wide(values: torch.Tensor) -> torch.Tensor:
    """Float8 as float32, because torch has few operators for it."""
    return values.float() if values.element_size() == 1 else values


def _bits(values: torch.Tensor) -> torch.Tensor:
    return values.contiguous().view(_SIGNED[values.dtype.itemsize])


def _ordered(values: torch.Tensor) -> torch.Tensor:
    """Map floating-point numbers to integers in the same order, one step apart; both zeros become 0."""
    bits = _bits(values).to(torch.int64)
    sign = 1 << (8 * values.dtype.itemsize - 1)
    return torch.where(bits < 0, -(bits + sign), bits)
