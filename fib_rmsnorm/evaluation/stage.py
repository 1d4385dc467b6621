"""Everything a timed call needs: fresh inputs, poisoned outputs, and a memory of the last few calls."""

from __future__ import annotations

import random
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from fib_rmsnorm.evaluation.outputs import OutputBuffers
from fib_rmsnorm.evaluation.pool import SHIFTS, InputPool
from fib_rmsnorm.evaluation.runner import Runner
from fib_rmsnorm.evaluation.timing.timer import Call, repeat
from fib_rmsnorm.schema import Definition, Workload

KEPT_CALLS = 4
"""Outputs of so many of the last calls are kept; which of them is judged is chosen afterwards."""
_FEWER_KEPT_BYTES = 256 << 20
_OVERHEAD_CALLS = 50
_OVERHEAD_TRIALS = 10


def count_kept_calls(output_bytes: int) -> int:
    """Of how many calls the outputs are kept: fewer if they are large."""
    return KEPT_CALLS if output_bytes < _FEWER_KEPT_BYTES else KEPT_CALLS // 2


class Stage:
    """The inputs and outputs of a solution's timed calls on one Workload."""

    def __init__(
        self, definition: Definition, workload: Workload, runner: Runner, device: str, dataset: Path | None
    ) -> None:
        self._runner = runner
        self._device = device
        self._pool = InputPool(definition, workload, device, dataset)
        first = OutputBuffers(definition, workload, device)
        size = sum(tensor.nbytes for tensor in first.tensors)
        kept = count_kept_calls(size)
        self._ring = [first, *(OutputBuffers(definition, workload, device) for _ in range(kept - 1))]
        # Another order in every process, so that no call knows which window will come.
        self._shifts = random.SystemRandom().sample(range(SHIFTS), SHIFTS)
        self._calls = 0
        self._recent: list[tuple[int, Any]] = [(0, None)] * kept

    @property
    def buffers(self) -> OutputBuffers:
        """Buffers of the form that outputs must have."""
        return self._ring[0]

    def prepare_fresh(self, _: int = 0) -> Call:
        """A call on inputs that no call has seen, into poisoned outputs."""
        shift = self._shifts[self._calls % SHIFTS]
        slot = self._calls % len(self._ring)
        self._calls += 1
        buffers = self._ring[slot]
        buffers.poison()
        call = self._runner.bind(self._pool.inputs(shift), buffers)
        if self._runner.destination_passing:
            self._recent[slot] = (shift, None)
            return call
        recent = self._recent

        def keep() -> None:
            recent[slot] = (shift, call())

        return keep

    def prepare_same(self, _: int = 0) -> Call:
        """A call on the same inputs and outputs as the one before, which caches may hold."""
        return self._runner.bind(self._pool.inputs(0), self._ring[0])

    def warm_up(self, calls: int, budget_s: float) -> None:
        """Call as often, without timing."""
        for _ in repeat(calls, budget_s):
            self.prepare_fresh()()
            self._runner.synchronize()

    def recall(self, back: int) -> tuple[int, list[torch.Tensor]]:
        """The window and outputs of the call that was `back` before the last fresh one."""
        self._runner.synchronize()
        slot = (self._calls - 1 - back) % len(self._ring)
        shift, returned = self._recent[slot]
        return shift, self._runner.outputs_of(returned, self._ring[slot])

    def changed_inputs(self) -> list[str]:
        """Names of inputs that timed calls have changed."""
        return self._pool.changed()

    def overrun(self) -> list[str]:
        """Names of outputs that timed calls have written beyond."""
        return sorted({name for buffers in self._ring for name in buffers.overrun()})

    def host_overhead_us(self) -> float | None:
        """Host microseconds to issue a call without waiting for it; None on CPU, where a call is its work."""
        if self._device == "cpu":
            return None
        call = self.prepare_same()
        best = float("inf")
        for _ in range(_OVERHEAD_TRIALS):
            self._runner.synchronize()
            started = perf_counter()
            for _ in range(_OVERHEAD_CALLS):
                call()
            best = min(best, (perf_counter() - started) / _OVERHEAD_CALLS)
        self._runner.synchronize()
        return best * 1e6

    def peak_memory_bytes(self) -> int | None:
        """Device memory that a call allocates through torch beyond its outputs; None on CPU."""
        if self._device == "cpu":
            return None
        call = self.prepare_same()
        self._runner.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        returned = call()
        self._runner.synchronize()
        peak = torch.cuda.max_memory_allocated() - before
        outputs = [] if self._runner.destination_passing else self._runner.outputs_of(returned, self.buffers)
        return max(0, peak - sum(tensor.nbytes for tensor in outputs))
