"""Find the fastest variant of a copier."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial

import torch

from fib_rmsnorm.evaluation.ceiling.ceiling_messages import StreamTraffic
from fib_rmsnorm.evaluation.ceiling.copier import CopyVariant
from fib_rmsnorm.evaluation.tensors.output_buffers import POISON, count_kept_calls
from fib_rmsnorm.evaluation.timing import Timer
from fib_rmsnorm.evaluation.timing.timer import Call, Sample
from fib_rmsnorm.evaluation.timing.trial_times import choose_calls, collect

# Sources move through a buffer from call to call, as a solution's inputs do from trial to trial. They move by whole
# cache lines, and over so few places that all of them fit into a hot cache. The number is prime, so that variants that
# take turns see all places. On a GPU, the streams move apart too, like tensors at random places.
_SHIFT_BYTES = (64 << 10) + 128
PLACES = 17

# Sweeps narrow down the variants: the first one times all of them a few times, later ones the best more often.
_ROUNDS = (4, 12, 36)
_KEPT_SHARE = 4
_SWEEP_S = 0.08


class Buffers:
    """A source with random contents, since zeros draw less power; and as many destinations as a solution has."""

    def __init__(self, device: str, traffic: StreamTraffic) -> None:
        self._is_spread = device != "cpu"
        most = (PLACES - 1) * _SHIFT_BYTES
        spread = most if self._is_spread else 0
        words = _allocate(device, traffic.bytes_read + most + (traffic.reads - 1) * spread).view(torch.int64)
        self._source = words.random_().view(torch.uint8)
        self._destinations = [
            _allocate(device, traffic.bytes_written + (traffic.writes - 1) * spread).fill_(POISON)
            for _ in range(count_kept_calls(traffic.bytes_written))
        ]

    def bind_fresh(self, variant: CopyVariant, index: int) -> Call:
        """Make call `index` of a variant. Its destination was just poisoned, so caches are as in a solution's call."""
        destination = self._destinations[index % len(self._destinations)].fill_(POISON)
        shift = index % PLACES * _SHIFT_BYTES
        return variant.bind(self._source[shift:], destination, shift if self._is_spread else 0)

    def bind_same(self, variant: CopyVariant, index: int) -> Call:
        """Make a call on the same bytes as the one before."""
        return variant.bind(self._source, self._destinations[0], 0)


def _allocate(device: str, size: int) -> torch.Tensor:
    """Allocate whole cache lines, at least one, because a copy moves whole vectors."""
    line = 128
    return torch.empty((size // line + 1) * line, dtype=torch.uint8, device=device)


def tune(
    variants: Sequence[CopyVariant], timer: Timer, buffers: Buffers, *, cold: bool
) -> list[tuple[CopyVariant, float]]:
    """Time the variants. Return each with its lower quartile in milliseconds, the fastest first."""
    samples: dict[str, list[float]] = {variant.name: [] for variant in variants}

    def speed(variant: CopyVariant) -> float:
        ordered = sorted(samples[variant.name])
        return ordered[len(ordered) // 4]  # disturbances affect the lower quartile least

    def sweep(some: Sequence[CopyVariant], rounds: int, budget_s: float) -> None:
        for variant, found in _sweep(some, rounds, budget_s, timer, buffers, cold=cold):
            samples[variant.name] += found

    for index, variant in enumerate(variants):
        buffers.bind_fresh(variant, index)()  # the driver may wait for the device to load a kernel: not in a held call
    left = list(variants)
    beaten: list[CopyVariant] = []
    sweep(left, 1, math.inf)
    for rounds in _ROUNDS:
        if len(left) == 1:
            break
        sweep(left, rounds, _SWEEP_S)
        left.sort(key=speed)
        kept = max(2, -(-len(left) // _KEPT_SHARE))
        left, beaten = left[:kept], left[kept:] + beaten
    return [(variant, speed(variant)) for variant in left + beaten]


def _sweep(
    variants: Sequence[CopyVariant], rounds: int, budget_s: float, timer: Timer, buffers: Buffers, *, cold: bool
) -> Iterator[tuple[CopyVariant, list[float]]]:
    """Time `rounds` calls of each variant.

    With a cold cache the variants take turns, so that drift affects all alike. Without eviction, the cache takes
    several calls to settle, so each variant has a run of calls of which the second half counts.
    """
    if cold:
        turns = timer.measure(
            lambda index: buffers.bind_fresh(variants[index % len(variants)], index),
            rounds * len(variants),
            cold=True,
            budget_s=budget_s,
        )
        for start, variant in enumerate(variants):
            yield variant, _undisturbed(turns[start :: len(variants)])
        return
    for variant in variants:
        run = timer.measure(
            partial(buffers.bind_fresh, variant), 4 * rounds, cold=False, budget_s=budget_s / len(variants)
        )
        yield variant, _undisturbed(run[len(run) // 2 :])


def _undisturbed(samples: Sequence[Sample]) -> list[float]:
    """The times of the undisturbed calls, or of all if too few are."""
    return choose_calls([collect(samples)]).trials_ms[0]
