"""Find the fastest of a copier's ways."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

import torch

from fib_rmsnorm.evaluation.ceilings.copier import Way
from fib_rmsnorm.evaluation.outputs import POISON
from fib_rmsnorm.evaluation.stage import count_kept_calls
from fib_rmsnorm.evaluation.timing import Timer
from fib_rmsnorm.evaluation.timing.timer import Call

# Sources move through a buffer from call to call, as a solution's inputs do: by whole cache lines, and over
# few enough places that all of them are in the cache when it is meant to be hot.
_SHIFT_BYTES = 128
PLACES = 16

# The ways are narrowed down in sweeps: all of them a few times, the best of those more often, and so on.
_ROUNDS = (4, 12, 36)
_KEPT_SHARE = 4
_SWEEP_S = 0.04


class Buffers:
    """A source of random contents, since zeros draw less power, and destinations as solutions have them."""

    def __init__(self, device: str, bytes_read: int, bytes_written: int) -> None:
        words = _allocate(device, bytes_read + PLACES * _SHIFT_BYTES).view(torch.int64)
        self._source = words.random_().view(torch.uint8)
        self._destinations = [
            _allocate(device, bytes_written).fill_(POISON) for _ in range(count_kept_calls(bytes_written))
        ]

    def bind_fresh(self, way: Way, index: int) -> Call:
        """Call `index` of a way to copy, into a destination poisoned just before: caches are as in a timed call."""
        destination = self._destinations[index % len(self._destinations)].fill_(POISON)
        return way.bind(self._source[index % PLACES * _SHIFT_BYTES :], destination)

    def bind_same(self, way: Way, index: int) -> Call:
        """A call on the same bytes as the one before."""
        return way.bind(self._source, self._destinations[0])


def _allocate(device: str, size: int) -> torch.Tensor:
    """Whole cache lines, at least one: a copy moves whole vectors."""
    line = 128
    return torch.empty((size // line + 1) * line, dtype=torch.uint8, device=device)


def tune(ways: Sequence[Way], timer: Timer, buffers: Buffers, *, cold: bool) -> list[tuple[Way, float]]:
    """Try the ways: each with its median in milliseconds, the fastest first; some are tried more often."""
    samples: dict[str, list[float]] = {way.name: [] for way in ways}

    def rank(some: Sequence[Way]) -> list[Way]:
        return sorted(some, key=lambda way: median(samples[way.name]))

    def sweep(some: Sequence[Way], rounds: int, budget_s: float) -> None:
        # A cache that is not evicted is as the call before left it: then each call is the second of its way.
        calls_each = 1 if cold else 2
        timed = timer.measure(
            lambda index: buffers.bind_fresh(some[index // calls_each % len(some)], index),
            calls_each * len(some) * rounds,
            cold=cold,
            budget_s=budget_s,
        )
        for index, sample in enumerate(timed):
            if index % calls_each == calls_each - 1:
                samples[some[index // calls_each % len(some)].name].append(sample.span_ms)

    left = list(ways)
    beaten: list[Way] = []
    sweep(left, 1, math.inf)
    for rounds in _ROUNDS:
        if len(left) == 1:
            break
        sweep(left, rounds, _SWEEP_S)
        left = rank(left)
        kept = -(-len(left) // _KEPT_SHARE)
        left, beaten = left[:kept], left[kept:] + beaten
    return [(way, median(samples[way.name])) for way in left + beaten]
