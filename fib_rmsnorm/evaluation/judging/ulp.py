"""Distances in units in the last place (ULP): the number of floating-point steps between two values."""

from __future__ import annotations

import torch

from fib_rmsnorm.schema import UlpStatistics

_SIGNED = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_CHUNK = 1 << 24
BUCKETS = ("0", "1", "2", "3-4", "5-8", "9-16", "17+")
_EDGES = (0, 1, 2, 4, 8, 16)


def measure_ulp(actual: torch.Tensor, expected: torch.Tensor) -> UlpStatistics | None:
    """Count the distances, block by block; None for integers.

    A pair of which only one value is finite counts as 17+, and not in the mean.
    """
    if not expected.dtype.is_floating_point or expected.dtype.itemsize not in _SIGNED:
        return None
    counts = torch.zeros(len(BUCKETS), dtype=torch.int64, device=expected.device)
    total, maximum = 0.0, 0
    edges = torch.tensor(_EDGES, device=expected.device)
    flat_actual, flat_expected = actual.reshape(-1), expected.reshape(-1)
    for a, e in zip(torch.split(flat_actual, _CHUNK), torch.split(flat_expected, _CHUNK), strict=True):
        finite, equal = _wide(a).isfinite() & _wide(e).isfinite(), _wide(a) == _wide(e)
        distance = (_ordered(a) - _ordered(e)).abs()
        distance = torch.where((a.isnan() & e.isnan()) | equal, 0, distance)
        counts += torch.bincount(torch.bucketize(distance, edges), minlength=len(BUCKETS))
        distance = torch.where(finite, distance, 0)
        total += distance.sum(dtype=torch.float64).item()
        maximum = max(maximum, int(distance.max().item()) if distance.numel() else 0)
    histogram = {name: int(count) for name, count in zip(BUCKETS, counts.tolist(), strict=True)}
    return UlpStatistics(maximum, total / max(1, expected.numel()), histogram)


def _wide(values: torch.Tensor) -> torch.Tensor:
    """Float8 as float32, because torch has few operators for it."""
    return values.float() if values.element_size() == 1 else values


def _ordered(values: torch.Tensor) -> torch.Tensor:
    """Map floating-point numbers to integers in the same order, one step apart; both zeros become 0."""
    bits = values.contiguous().view(_SIGNED[values.dtype.itemsize]).to(torch.int64)
    sign = 1 << (8 * values.dtype.itemsize - 1)
    return torch.where(bits < 0, -(bits + sign), bits)
