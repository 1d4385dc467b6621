"""Find the fastest of a copier's ways."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial

import torch

from fib_rmsnorm.evaluation.ceiling.copier import CopyVariant
from fib_rmsnorm.evaluation.tensors.output_buffers import POISON, count_kept_calls
from fib_rmsnorm.evaluation.timing import Timer
from fib_rmsnorm.evaluation.timing.timer import Call

# Sources move through a buffer from call to call, as a solution's inputs do from trial to trial: by whole cache
# lines, and over few enough places that all of them are in the cache when it is meant to be hot.
_SHIFT_BYTES = (64 << 10) + 128
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

    def bind_fresh(self, way: CopyVariant, index: int) -> Call:
        """Call `index` of a way to copy, into a destination poisoned just before: caches are as in a timed call."""
        destination = self._destinations[index % len(self._destinations)].fill_(POISON)
        return way.bind(self._source[index % PLACES * _SHIFT_BYTES :], destination)

    def bind_same(self, way: CopyVariant, index: int) -> Call:
        """A call on the same bytes as the one before."""
        return way.bind(self._source, self._destinations[0])


def _allocate(device: str, size: int) -> torch.Tensor:
    """Whole cache lines, at least one: a copy moves whole vectors."""
    line = 128
    return torch.empty((size // line + 1) * line, dtype=torch.uint8, device=device)


def tune(ways: Sequence[CopyVariant], timer: Timer, buffers: Buffers, *, cold: bool) -> list[tuple[CopyVariant, float]]:
    """Try the ways: each with its lower quartile in milliseconds, the fastest first; some are tried more often."""
    samples: dict[str, list[float]] = {way.name: [] for way in ways}

    def speed(way: CopyVariant) -> float:
        ordered = sorted(samples[way.name])
        return ordered[len(ordered) // 4]  # what a disturbance reaches last

    def sweep(some: Sequence[CopyVariant], rounds: int, budget_s: float) -> None:
        for way, found in _sweep(some, rounds, budget_s, timer, buffers, cold=cold):
            samples[way.name] += found

    left = list(ways)
    beaten: list[CopyVariant] = []
    sweep(left, 1, math.inf)
    for rounds in _ROUNDS:
        if len(left) == 1:
            break
        sweep(left, rounds, _SWEEP_S)
        left.sort(key=speed)
        kept = max(2, -(-len(left) // _KEPT_SHARE))
        left, beaten = left[:kept], left[kept:] + beaten
    return [(way, speed(way)) for way in left + beaten]


def _sweep(
    ways: Sequence[CopyVariant], rounds: int, budget_s: float, timer: Timer, buffers: Buffers, *, cold: bool
) -> Iterator[tuple[CopyVariant, list[float]]]:
    """Time `rounds` calls of each way: taking turns with a cold cache, so that drift hits all alike.

    A cache that is not evicted is as the calls before left it, and takes several to settle: then each way has
    a run of calls, of which the second half counts.
    """
    if cold:
        turns = timer.measure(
            lambda index: buffers.bind_fresh(ways[index % len(ways)], index),
            rounds * len(ways),
            cold=True,
            budget_s=budget_s,
        )
        for start, way in enumerate(ways):
            yield way, [sample.span_ms for sample in turns[start :: len(ways)]]
        return
    for way in ways:
        run = timer.measure(partial(buffers.bind_fresh, way), 4 * rounds, cold=False, budget_s=budget_s / len(ways))
        yield way, [sample.span_ms for sample in run[len(run) // 2 :]]
