"""An output beside the right one, and the elements in which they differ: found once for all that asks for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from fib_rmsnorm.evaluation.tensors.bits import as_integers

_BLOCK = 1 << 24
_FEW = 1 << 16


@dataclass(frozen=True)
class Differing:
    """The elements of a block of an output whose bits differ from the right ones, as flat tensors."""

    places: torch.Tensor
    """Their numbers in the whole output."""
    actual: torch.Tensor
    expected: torch.Tensor
    bound: torch.Tensor | None
    """The error that each may have beyond the tolerances; None for none."""

    @property
    def count(self) -> int:
        """How many they are."""
        return self.places.numel()


class OutputPair:
    """An output and the right one, of the same shape, dtype and device."""

    def __init__(self, actual: torch.Tensor, expected: torch.Tensor, bound: torch.Tensor | None = None) -> None:
        """`bound` is the error that each element may have beyond the tolerances, none by default."""
        self.actual = actual
        self.expected = expected
        self.bound = bound
        self._few: dict[int, Differing] = {}
        """Where a block begins, the elements that differ in it, if they are few."""

    def list_differing(self) -> Iterator[Differing]:
        """The elements that differ, block by block, each of whole rows along the last dimension.

        In what is right they are few. Then they lie on the CPU and are kept: a GPU would take 10 to 20 us for each of
        the dozens of small steps of a comparison, and where other processes use it, each wait for it takes longer.
        """
        flat = self.actual.reshape(-1), self.expected.reshape(-1)
        columns = max(1, self.expected.shape[-1]) if self.expected.dim() else 1
        step = max(1, _BLOCK // columns) * columns
        for start in range(0, flat[0].numel(), step):
            if start not in self._few:
                actual, expected = (as_integers(each[start : start + step]) for each in flat)
                found = self._pick(actual, expected, (actual != expected).nonzero().flatten(), start)
                if found.places.is_cpu and found.count <= _FEW:
                    self._few[start] = found
                yield found
            else:
                yield self._few[start]

    def _pick(self, actual: torch.Tensor, expected: torch.Tensor, places: torch.Tensor, start: int) -> Differing:
        bound = None if self.bound is None else self.bound.reshape(-1)[places + start]
        a, e = actual[places], expected[places]
        if not places.is_cpu and places.numel() <= _FEW:
            wide = torch.stack((places, a.to(torch.int64), e.to(torch.int64))).cpu()  # one wait for the GPU, not three
            places, a, e = wide[0], wide[1].to(actual.dtype), wide[2].to(actual.dtype)
            bound = None if bound is None else bound.cpu()
        dtype = self.expected.dtype
        return Differing(places + start, a.view(dtype), e.view(dtype), bound)
