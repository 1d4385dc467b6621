"""Everything a timed call needs: inputs that no call has seen, poisoned outputs, and a look at what it left."""

from __future__ import annotations

from collections import deque
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from secrets import randbelow
from typing import Any

import torch

from fib_rmsnorm.evaluation.tensors.fresh_inputs import FreshInputs
from fib_rmsnorm.evaluation.tensors.output_buffers import OutputBuffers, count_kept_calls
from fib_rmsnorm.evaluation.tensors.returned_outputs import WrongOutputError
from fib_rmsnorm.evaluation.timing.host_overhead import host_overhead_us
from fib_rmsnorm.evaluation.timing.timer import Call, repeat
from fib_rmsnorm.evaluation.worker.caller import SolutionCaller
from fib_rmsnorm.schema import Definition, Workload

_clone = torch.Tensor.clone


@dataclass(frozen=True)
class ChosenCall:
    """A timed call that was chosen to be judged: the number of its inputs, and its outputs as it returned."""

    number: int
    outputs: list[torch.Tensor]
    returned: list[torch.Tensor] | None
    """What it returned, if it did: nobody may write to that as long as we hold it."""


class TimedCalls:
    """The inputs and outputs of a solution's timed calls on one Workload."""

    def __init__(
        self, definition: Definition, workload: Workload, runner: SolutionCaller, device: str, dataset: Path | None
    ) -> None:
        self._runner = runner
        self._device = device
        self._make_inputs = partial(FreshInputs, definition, workload, device, dataset)
        self._make_outputs = partial(OutputBuffers, definition, workload, device)
        self._numbers: list[int] = []
        self._changed_inputs: set[str] = set()
        self._overrun: set[str] = set()
        self._timed = 0
        self._chosen: ChosenCall | None = None
        self._set_up()
        self._returned: deque[Any] = deque(maxlen=len(self._ring))

    def _set_up(self) -> None:
        self._inputs = self._make_inputs()
        self._number: int | None = None
        first = self._make_outputs()
        kept = count_kept_calls(sum(tensor.nbytes for tensor in first.tensors))
        self._ring = deque([first, *(self._make_outputs() for _ in range(kept - 1))])

    def move(self) -> None:
        """Lay inputs and outputs elsewhere in memory, as the next process would: for each trial, on a GPU."""
        if self._device == "cpu":
            return
        self._changed_inputs.update(self.changed_inputs())
        self._overrun.update(self.overrun())
        del self._inputs, self._ring  # first: they may take half of the memory
        self._set_up()

    @property
    def buffers(self) -> OutputBuffers:
        """The outputs of the last call."""
        return self._ring[0]

    def prepare(self, _: int = 0) -> Call:
        """A call on inputs that no call has seen, into poisoned outputs."""
        if not self._runner.destination_passing:
            # Lets go of an old one now: not while it is timed, nor where the inputs are new.
            self._returned.append(None)
        self._number = self._inputs.number_after(self._number)
        self._numbers.append(self._number)
        inputs = self._inputs.set(self._number)
        self._ring.rotate()
        self.buffers.poison()  # after the inputs are there: an answer that is written too early is lost
        call = self._runner.bind(inputs, self.buffers)
        if self._runner.destination_passing:
            return call
        returned = self._returned

        def keep() -> None:
            returned[-1] = call()

        return keep

    def look(self) -> int:
        """Keep what the timed call that has just returned left, or not: each since the last recall is as likely.

        Returns how many copies it has launched. Raises WrongOutputError if the call left no outputs, or put them
        where those of an earlier call are that we hold.
        """
        self._timed += 1
        if randbelow(self._timed):
            return 0
        found = self._outputs()
        seen = [_clone(tensor) for tensor in found]
        self._runner.require_apart([returned for returned in self._returned if returned is not None])
        held = None if self._runner.destination_passing else found
        self._chosen = ChosenCall(self._numbers[-1], seen, held)
        return len(seen)

    def _outputs(self) -> list[torch.Tensor]:
        returned = None if self._runner.destination_passing else self._returned[-1]
        return self._runner.outputs_of(returned, self.buffers)

    def recall(self, timed: int) -> ChosenCall:
        """The call that was chosen since the last recall, when `timed` calls have been timed.

        Raises WrongOutputError if it was chosen from another number.
        """
        if self._chosen is None or self._timed != timed:
            raise WrongOutputError(f"of {timed} timed calls {self._timed} were seen")
        chosen, self._chosen, self._timed = self._chosen, None, 0
        self._runner.synchronize()
        return chosen

    def changed_outputs(self, chosen: ChosenCall) -> list[str]:
        """Names of what a call returned and has changed since: an output belongs to the caller."""
        return self._runner.changed(chosen.returned, chosen.outputs) if chosen.returned else []

    def earlier_numbers(self, number: int) -> list[int]:
        """The numbers of the first calls and of the one before `number`: what caches keep is mostly of one of these."""
        index = self._numbers.index(number)
        return [self._numbers[i] for i in sorted({0, 1, index - 1}) if 0 <= i < index]

    def warm_up(self, calls: int, budget_s: float, watched_by: AbstractContextManager[object]) -> None:
        """Call as often, without timing; the first call within a context."""
        for index in repeat(calls, budget_s):
            call = self.prepare()
            with watched_by if index == 0 else nullcontext():
                call()
            self._runner.synchronize()

    def changed_inputs(self) -> list[str]:
        """Names of inputs that timed calls have changed."""
        return sorted(self._changed_inputs.union(self._inputs.changed()))

    def overrun(self) -> list[str]:
        """Names of outputs that timed calls have written beyond."""
        return sorted(self._overrun.union(*(buffers.overrun() for buffers in self._ring)))

    def host_overhead_us(self) -> float | None:
        """Host microseconds to issue a call, at this moment; None on CPU, where a call is its work."""
        return None if self._device == "cpu" else host_overhead_us(self.prepare())

    def peak_memory_bytes(self) -> int | None:
        """Device memory that a call allocates through torch beyond its outputs; None on CPU."""
        if self._device == "cpu":
            return None
        call = self.prepare()
        self._runner.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        call()
        self._runner.synchronize()
        peak = torch.cuda.max_memory_allocated() - before
        outputs = [] if self._runner.destination_passing else self._outputs()
        return max(0, peak - sum(tensor.nbytes for tensor in outputs))
