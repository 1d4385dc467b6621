"""The ceiling process: it measures an empty kernel and a copy with the same traffic, which no kernel can beat."""

import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from time import perf_counter

import torch

from fib_rmsnorm.building import BuildError
from fib_rmsnorm.evaluation.ceiling.ceiling_messages import BuildCopy, MeasureCeiling, StreamTraffic
from fib_rmsnorm.evaluation.ceiling.copier import Copier, CopyVariant, CppCopy, CudaCopy
from fib_rmsnorm.evaluation.tensors.output_buffers import POISON, count_kept_calls
from fib_rmsnorm.evaluation.timing import Timer, choose_timer
from fib_rmsnorm.evaluation.timing.host_overhead import host_overhead_us
from fib_rmsnorm.evaluation.timing.latency_statistics import choose_undisturbed, grouped_median, measure_calls
from fib_rmsnorm.evaluation.timing.timer import MAX_ATTEMPTS, Call, MeasurementError, Sample, Trial
from fib_rmsnorm.machine.devices import version_of_torch
from fib_rmsnorm.sandbox.asking import Done, name_handlers, open_device
from fib_rmsnorm.sandbox.channel import Channel, RefusalError, serve
from fib_rmsnorm.schema import Ceiling

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


def tune(variants: Sequence[CopyVariant], timer: Timer, buffers: Buffers, *, cold: bool) -> tuple[CopyVariant, float]:
    """Time the variants. Return the fastest and its lower quartile in milliseconds.

    With a cold cache the variants take turns, so that drift affects all alike. Without eviction, the cache takes
    several calls to settle, so each variant has a run of calls of which the second half counts.
    """
    samples: dict[str, list[float]] = {variant.name: [] for variant in variants}

    def speed(variant: CopyVariant) -> float:
        ordered = sorted(samples[variant.name])
        return ordered[len(ordered) // 4]  # disturbances affect the lower quartile least

    def sweep(some: Sequence[CopyVariant], rounds: int, budget_s: float) -> None:
        if cold:
            trial = Trial(rounds * len(some), cold=True, budget_s=budget_s)
            turns = timer.measure(lambda index: buffers.bind_fresh(some[index % len(some)], index), trial)
            runs = [turns[start :: len(some)] for start in range(len(some))]  # a slow device may not come to all
        else:
            trial = Trial(4 * rounds, cold=False, budget_s=budget_s / len(some))
            whole = [timer.measure(partial(buffers.bind_fresh, variant), trial) for variant in some]
            runs = [run[len(run) // 2 :] for run in whole]
        for variant, run in zip(some, runs, strict=True):
            samples[variant.name] += _undisturbed(run)

    for index, variant in enumerate(variants):
        buffers.bind_fresh(variant, index)()  # the driver may wait for the device to load a kernel: not in a held call
    left = list(variants)
    sweep(left, 1, math.inf)
    for rounds in _ROUNDS:
        if len(left) > 1:
            sweep(left, rounds, _SWEEP_S)
            left = sorted(left, key=speed)[: max(2, -(-len(left) // _KEPT_SHARE))]
    return left[0], speed(left[0])


def _undisturbed(samples: Sequence[Sample]) -> list[float]:
    return choose_undisturbed(samples) or [sample.span_ms for sample in samples]


_CALLS = 100
_MIN_CALLS = 7
_MEASUREMENT_MS = 60.0
_MAX_S = 1.0  # for a copy whose calls wait for a core
_WIDE = 1.1  # a copy whose interval is wider is measured again when it is asked for again
_OVERHEAD_MS = 0.2  # the untimed part of a cold call: the eviction, and waiting for it


class DeviceCeiling:
    """A device with its timer and its copier, and the ceilings that were measured there."""

    def __init__(self, device: str, cache: Path) -> None:
        self._device = device
        self.timer = choose_timer(device)
        self.copier, self._note = choose_copier(device, cache)
        self._measured: dict[tuple[StreamTraffic, bool], Ceiling] = {}

    def find(self, traffic: StreamTraffic, *, cold: bool, attempts: int = MAX_ATTEMPTS) -> Ceiling:
        """The ceiling of a traffic: measured once, unless its interval is wide. Raises RefusalError if that fails."""
        known = self._measured.get((traffic, cold))
        if known is not None and known.copy_high_ms <= _WIDE * known.copy_low_ms:
            return known
        try:
            found = self._measured[traffic, cold] = self.measure(traffic, cold=cold)
        except MeasurementError as error:
            if attempts == 1:
                raise RefusalError("RUNTIME_ERROR", str(error)) from None
            return self.find(traffic, cold=cold, attempts=attempts - 1)
        return found

    def measure(self, traffic: StreamTraffic, *, cold: bool) -> Ceiling:
        """Measure an empty call and the fastest copy: medians in milliseconds."""
        cold = cold and self._device != "cpu"
        buffers = Buffers(self._device, traffic)
        host_us = [self._time_host()]
        with _pinned(self.copier.cores[:1]):
            trial = Trial(_CALLS, cold, _MEASUREMENT_MS / 1e3)
            empty = _undisturbed(self.timer.measure(lambda _: self.copier.empty, trial))
            best, expected_ms = tune(self.copier.variants(traffic), self.timer, buffers, cold=cold)
            copy = self._time_copy(best, buffers.bind_fresh, expected_ms, cold=cold)
            hot = self._time_copy(best, buffers.bind_same, expected_ms, cold=False) if cold else None
        host_us.append(self._time_host())
        del buffers
        if self._device != "cpu":
            torch.cuda.empty_cache()  # leaves the memory to the solutions
        tick = self.timer.tick_ms
        scatter = measure_calls(copy, tick)
        return Ceiling(
            empty_ms=grouped_median(empty, tick),
            empty_host_us=min((us for us in host_us if us is not None), default=None),
            copy_ms=scatter.latency_ms,
            copy_low_ms=scatter.interval.low,
            copy_high_ms=scatter.interval.high,
            copy_hot_ms=measure_calls(hot, tick).latency_ms if hot else None,
            copy_method=best.name,
            note="; ".join(filter(None, (self._note, scatter.doubt))) or None,
            threads=list(best.cores) or None,
        )

    def _time_host(self) -> float | None:
        self.timer.rest()
        return None if self._device == "cpu" else host_overhead_us(self.copier.empty)

    def _time_copy(
        self, variant: CopyVariant, bind: Callable[[CopyVariant, int], Call], expected_ms: float, *, cold: bool
    ) -> list[list[Sample]]:
        """Time a copy until half as many calls as are wanted were undisturbed."""
        warmup = 0 if cold else PLACES  # until every place in the buffer has been read
        wanted = int(_MEASUREMENT_MS / (expected_ms + _OVERHEAD_MS))
        calls = min(_CALLS, max(_MIN_CALLS, wanted))
        # Two trials show a drift; the few calls of a half say too little for a GPU's limit.
        half = calls // 2 if self._device == "cpu" else calls
        trials: list[list[Sample]] = []
        ended = perf_counter() + _MAX_S
        while not trials or (
            sum(not each.is_disturbed for some in trials for each in some) < calls / 2 and perf_counter() < ended
        ):
            trial = Trial(warmup + calls, cold, math.inf)
            timed = self.timer.measure(partial(bind, variant), trial)[warmup:]
            trials += filter(None, (timed[:half], timed[half:]))
        return trials


def choose_copier(device: str, cache: Path) -> tuple[Copier, str | None]:
    """The best copier that can be built here, and why no better one can be; None if it is the best.

    Raises RefusalError if none can be.
    """
    reasons: list[str] = []

    def import_triton_copy(*_: object) -> Copier:
        from fib_rmsnorm.evaluation.ceiling.triton_copy import TritonCopy

        return TritonCopy()

    on_gpu = (import_triton_copy,) if version_of_torch("hip") else (CudaCopy, import_triton_copy)
    for make in (CppCopy,) if device == "cpu" else on_gpu:
        try:
            return make(device, cache), "; ".join(reasons) or None
        except (BuildError, ImportError) as error:  # noqa: PERF203 - once or twice
            reasons.append(str(error).strip().partition("\n")[0])
    raise RefusalError("RUNTIME_ERROR", "; ".join(reasons))


@contextmanager
def _pinned(cores: Sequence[int]) -> Iterator[None]:
    """Keep this thread on the given cores; without any, let it run on all."""
    before = os.sched_getaffinity(0)
    if cores:
        os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


_find_ceiling = cache(DeviceCeiling)


def build_copy(request: BuildCopy) -> Done:
    """Compile the copy for a device."""
    _find_ceiling(request.device, request.cache)
    return Done()


def measure(request: MeasureCeiling) -> Ceiling:
    """Measure an empty call, and a copy with a given traffic."""
    return _find_ceiling(request.device, request.cache).find(request.traffic, cold=request.cold)


def main(channel: Channel, _: int) -> None:
    """Serve until the channel closes."""
    serve(channel, name_handlers(open_device, build_copy, measure))
