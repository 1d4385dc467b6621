"""Prepare timed calls with new inputs and poisoned outputs, and choose one of them to be judged."""

import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import accumulate
from operator import attrgetter
from secrets import randbelow
from time import perf_counter_ns
from typing import Any

import torch
from torch.autograd.profiler import profile
from torch.utils._python_dispatch import TorchDispatchMode

from fib_rmsnorm.evaluation.tensors.fresh_inputs import FreshInputs
from fib_rmsnorm.evaluation.tensors.guarded_memory import require_access
from fib_rmsnorm.evaluation.tensors.inputs import DeviceWorkload
from fib_rmsnorm.evaluation.tensors.output_buffers import (
    OutputBuffers,
    WrongOutputError,
    count_kept_calls,
    find_overrun,
)
from fib_rmsnorm.evaluation.timing.cuda_driver import LateReleaseError
from fib_rmsnorm.evaluation.timing.host_overhead import host_overhead_us
from fib_rmsnorm.evaluation.timing.timer import MAX_ATTEMPTS, Call, MeasurementError, Sample, Timer, Trial, repeat
from fib_rmsnorm.evaluation.worker.caller import SolutionCaller
from fib_rmsnorm.evaluation.worker.worker_messages import Revealed, Timed
from fib_rmsnorm.sandbox.asking import DeviceMemory
from fib_rmsnorm.sandbox.channel import RefusalError

_clone = torch.Tensor.clone
_CALLS_AT_A_PLACE = 5
"""After so many timed calls on a GPU the inputs move: their place alone changes the time of a kernel of 2 us by 2%."""
_MOST_BYTES_MOVED = 16 << 20
"""Larger inputs stay during a trial: they take all of L2's slices wherever they lie, and long to copy."""
# A call that waits for the device itself is timed on an idle one from then on.
_MOST_LATE_RELEASES = 2
# Operators that only create, move or fill tensors: they do not do a kernel's work.
_PLAIN = {
    *("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "resize_", "set_"),
    *("full", "full_like", "new_full", "ones", "ones_like", "new_ones", "zeros", "zeros_like", "new_zeros"),
    *("fill", "fill_", "zero_", "clone", "contiguous", "copy_", "_to_copy", "_reshape_copy", "_local_scalar_dense"),
    *("alias", "detach", "lift_fresh", "_unsafe_view"),
}


@dataclass(frozen=True)
class ChosenCall:
    """A timed call that was chosen to be judged: the number of its inputs, and copies of its outputs."""

    number: int
    outputs: list[torch.Tensor]
    returned: list[torch.Tensor] | None
    """The tensors that it returned, to which nobody may write while we hold them; None if it fills given buffers."""


class TimedCalls:
    """The inputs and outputs of a solution's timed calls on one Workload."""

    def __init__(self, timed: DeviceWorkload, caller: SolutionCaller, judged_calls: int = 1) -> None:
        """`judged_calls` is the number of calls that are chosen together to be judged."""
        self._judged_calls = judged_calls
        self._caller = caller
        self._of = timed
        self._overrun: set[str] = set()
        self._measured = 0
        """The calls since the last choice was taken, as the timer counts them."""
        self._timed = 0
        """The same, as they returned."""
        self._late_releases = 0
        self._chosen: list[ChosenCall] = []
        self._number: int | None = None
        self._inputs = FreshInputs(timed)
        is_small = sum(tensor.nbytes for tensor in self._inputs.tensors) <= _MOST_BYTES_MOVED
        self._moves_often = is_small and timed.device != "cpu"
        self._set_up_outputs()
        self._returned: deque[Any] = deque(maxlen=len(self._ring))

    def _set_up_outputs(self) -> None:
        first = OutputBuffers(self._of)
        kept = count_kept_calls(sum(tensor.nbytes for tensor in first.tensors))
        self._ring = deque([first, *(OutputBuffers(self._of) for _ in range(kept - 1))])

    def move(self) -> None:
        """Before a trial on a GPU, move inputs and outputs elsewhere in memory, as another process would place them."""
        if self._of.device == "cpu":
            return
        self._overrun.update(find_overrun(self._ring))
        del self._ring  # before the others exist: the outputs may take a fourth of the memory
        self._inputs.move()
        self._set_up_outputs()

    @property
    def buffers(self) -> OutputBuffers:
        """The output buffers of the last call."""
        return self._ring[0]

    def prepare(self, index: int = 0) -> Call:
        """Return a trial's call of this index, on inputs that no call has seen, with poisoned output buffers.

        Raises WrongOutputError if an earlier call changed the access to their memory.
        """
        if not self._caller.destination_passing:
            # Drops an old output now: not while a call is timed, nor after the new inputs are there.
            self._returned.append(None)
        self._ring.rotate()
        self._require_access(self.buffers)
        if index and index % _CALLS_AT_A_PLACE == 0 and self._moves_often:
            self._inputs.move()
        self._number = self._inputs.number_after(self._number)
        inputs = self._inputs.set(self._number)
        self.buffers.poison()  # after the inputs are there, to erase an output that is written too early
        call = self._caller.bind(inputs, self.buffers)
        if self._caller.destination_passing:
            return call
        returned = self._returned

        def keep() -> None:
            returned[-1] = call()

        return keep

    def _require_access(self, *buffers: OutputBuffers) -> None:
        """Raise WrongOutputError if calls on a CPU have changed the access to their inputs or to these outputs."""
        if self._of.device == "cpu":
            outputs = [tensor for each in buffers for tensor in each.tensors]
            require_access([*self._inputs.tensors, *outputs], writing=True)

    def sample_outputs(self) -> int:
        """Decide at random whether to judge the timed call that has just returned, and keep its outputs if so.

        Each call since the last choice was taken is equally likely to be judged (Vitter 1985, "Random sampling with a
        reservoir", algorithm R). Returns the number of copies that this
        launched. Raises WrongOutputError if the outputs are invalid, or lie in the memory of an earlier output that we
        hold.
        """
        self._timed += 1
        place = len(self._chosen) if len(self._chosen) < self._judged_calls else randbelow(self._timed)
        if self._number is None or place >= self._judged_calls:
            return 0
        found = self._outputs()
        seen = [_clone(tensor) for tensor in found]
        self._caller.require_separate_memory([returned for returned in self._returned if returned is not None])
        held = None if self._caller.destination_passing else found
        self._chosen[place : place + 1] = [ChosenCall(self._number, seen, held)]
        return len(seen)

    def _outputs(self) -> list[torch.Tensor]:
        returned = None if self._caller.destination_passing else self._returned[-1]
        return self._caller.outputs_of(returned, self.buffers)

    def reveal(self, transfer: Callable[[list[torch.Tensor]], list[DeviceMemory] | None]) -> Revealed:
        """Transfer the outputs of the calls that were chosen since the last choice, by their numbers; begin another.

        Raises WrongOutputError if they were chosen from another number of calls than were timed, or if calls have
        changed the access to inputs or outputs.
        """
        self._require_access(*self._ring)
        if not self._chosen or self._timed != self._measured:
            raise WrongOutputError(f"only {self._timed} of {self._measured} timed calls were seen", is_cheat=True)
        chosen, self._chosen = sorted(self._chosen, key=attrgetter("number")), []
        self._timed = self._measured = 0
        self._caller.synchronize()
        memory = transfer([tensor for call in chosen for tensor in call.outputs])
        self._overrun.update(find_overrun(self._ring))
        # A returned output belongs to its caller: nobody may change it later.
        returning = ((call.returned, call.outputs) for call in chosen if call.returned)
        changed = {name for pair in returning for name in self._caller.changed(*pair)}
        return Revealed(
            memory=memory,
            numbers=[call.number for call in chosen],
            changed_inputs=sorted(self._inputs.changed()),
            overrun=sorted(self._overrun),
            changed_outputs=sorted(changed),
        )

    def time(self, timer: Timer, wanted: Trial) -> Timed:
        """Time one trial, and again if its measurement fails. Raises RefusalError for MAX_ATTEMPTS in a row."""
        samples: list[Sample] = []
        repeated: list[str] = []
        while not samples:
            trial = wanted._replace(queued=wanted.queued and self._late_releases < _MOST_LATE_RELEASES)
            self.move()
            try:
                samples = timer.measure(self.prepare, trial, self.sample_outputs)
            except MeasurementError as error:
                self._measured += error.calls
                self._late_releases += isinstance(error, LateReleaseError)
                repeated.append(str(error))
                if len(repeated) == MAX_ATTEMPTS:
                    errors = "; ".join(dict.fromkeys(repeated))
                    raise RefusalError("RUNTIME_ERROR", f"{errors}, in {MAX_ATTEMPTS} trials in a row") from None
        self._measured += len(samples)
        if trial.queued:
            self._late_releases = 0  # one late release now and then, of a busy host, leaves the next call queued
        is_queued = trial.queued and self._of.device != "cpu"
        return Timed(samples, repeated=repeated, queued=is_queued, clock_ns=perf_counter_ns())

    def warm_up(self, calls: int, budget_s: float, *, lists_operators: bool) -> list[str] | None:
        """Call up to `calls` times without timing. Returns the torch operators that the first call ran, if asked to."""
        library_calls = LibraryCalls() if lists_operators and calls else None
        for index in repeat(calls, budget_s):
            call = self.prepare()
            with library_calls if library_calls and index == 0 else nullcontext():
                call()
            self._caller.synchronize()
        return list(library_calls.names) if library_calls else None

    def host_overhead_us(self) -> float | None:
        """Microseconds that the host takes to issue a call now; None on CPU, where the host does the work itself."""
        return None if self._of.device == "cpu" else host_overhead_us(self.prepare())

    def peak_memory_bytes(self) -> int:
        """Memory of the device that a call allocates through torch beyond its outputs."""
        call = self.prepare()
        self._caller.synchronize()
        if self._of.device == "cpu":
            peak = _peak_on_cpu(call)
        else:
            before = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
            call()
            self._caller.synchronize()
            peak = torch.cuda.max_memory_allocated() - before
        outputs = [] if self._caller.destination_passing else self._outputs()
        return max(0, peak - sum(tensor.nbytes for tensor in outputs))


def _peak_on_cpu(call: Call) -> int:
    """The most bytes that a call holds at once."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # or torch's notes on stderr would look like the kernel's
    with profile(profile_memory=True) as profiler:
        call()
    events = profiler.kineto_results.events() if profiler.kineto_results else []
    moves = sorted((each.start_ns(), each.nbytes()) for each in events if each.name() == "[memory]")
    return max(accumulate(size for _, size in moves), default=0)


class LibraryCalls(TorchDispatchMode):
    """Lists the operators that this thread runs while entered, but not those that only create, move or fill tensors.

    A kernel that claims to be Triton may be torch's own.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: dict[str, None] = {}
        """Qualified names, such as `aten::mean.dim`, in the order of their first call."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Whether torch wraps `__torch_dispatch__` to keep Dynamo out, whose import takes seconds at the first call."""
        return False

    def __torch_dispatch__(
        self, function: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Note the operator, and run it."""
        name: str = function.name()
        if not function.is_view and name.partition("::")[2].partition(".")[0] not in _PLAIN:
            self.names[name] = None
        return function(*args, **(kwargs or {}))
