"""Time a solution's calls in a chain: a CUDA graph of links, each of them a producer, a call and a consumer.

The producer has just written the input that the call reads, and the consumer reads the call's output. A call costs the
difference to the same graph without the calls, whose consumers read what the producers wrote.

A solution can tell that it is captured, so the calls in a graph are judged too. Each replay has fresh inputs, and
neighbouring links have different ones, so a link that does nothing leaves a wrong output: that of the link before it.
Nobody can foresee which link of which replay is judged.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from secrets import randbelow
from typing import Any

import torch

from fib_rmsnorm.building.build_errors import describe_exception
from fib_rmsnorm.evaluation.tensors.fresh_inputs import FreshInputs
from fib_rmsnorm.evaluation.tensors.inputs import DeviceWorkload
from fib_rmsnorm.evaluation.tensors.output_buffers import (
    OutputBuffers,
    address_of,
    allocate_at_random_place,
    find_overrun,
    same_bits,
)
from fib_rmsnorm.evaluation.timing.cuda_graph import CapturedGraph, CopyKernel
from fib_rmsnorm.evaluation.timing.latency_statistics import LINKS, ChainTimes
from fib_rmsnorm.evaluation.timing.timer import repeat
from fib_rmsnorm.evaluation.worker.caller import SolutionCaller
from fib_rmsnorm.evaluation.worker.worker_messages import Revealed
from fib_rmsnorm.sandbox.channel import RefusalError
from fib_rmsnorm.schema import Definition

_SETS = 2  # of inputs, for the links in turn

_clone = torch.Tensor.clone
_Tensors = Sequence[torch.Tensor]


class UncapturableError(Exception):
    """A call cannot be captured in a CUDA graph. The message says why."""


@dataclass(frozen=True)
class ChainTrial:
    """One trial: its times, and the outputs of a call to be judged, which are not transferred yet."""

    times: ChainTimes
    outputs: list[torch.Tensor]
    revealed: Revealed


class ChainedCalls:
    """The inputs and outputs of the links of one trial's graphs, which are captured on the current stream."""

    def __init__(self, timed: DeviceWorkload, caller: SolutionCaller, *, dependent: bool) -> None:
        self._kernel = CopyKernel(dependent=dependent)
        definition, device = timed.definition, timed.device
        self._caller = caller
        self._produced = find_produced_input(definition)
        self._fresh = [FreshInputs(timed) for _ in range(_SETS)]
        self._numbers = [fresh.number_after(None) for fresh in self._fresh]
        self._set_inputs()
        self._buffers = OutputBuffers(timed)
        self._kept = [torch.empty_like(tensor) for tensor in self._buffers.tensors]
        self._sink = torch.empty_like(self._kept[0])
        self._kept_link = randbelow(LINKS)
        produced = self._inputs[0][self._produced]
        # Without a call, the consumer reads as many bytes from here as the call's output has.
        memory = allocate_at_random_place(max(produced.nbytes, self._sink.nbytes), device).zero_()
        self._place = memory[: produced.nbytes].view(produced.dtype).view(produced.shape)
        outputs = dict(zip(definition.outputs, self._buffers.tensors, strict=True))
        in_its_place = [outputs[name] for name, source in caller.in_place.items() if source == self._produced]
        self._written = in_its_place[0] if in_its_place else self._place

    def time(self, replays: int, budget_s: float) -> ChainTrial:
        """Time up to `replays` replays of both graphs, fewer if the budget is spent first.

        Raises UncapturableError, or WrongOutputError for invalid outputs.
        """
        self._call_link(0)  # some allocate, tune or compile at their first call on a stream
        without_calls = CapturedGraph(self._skip_link, LINKS)
        with_calls = _capture(self._call_link)
        times = ChainTimes([], [])
        numbers, outputs, is_changed = self._numbers, self._kept, False
        for index in repeat(replays, budget_s):
            # Inputs that no call has seen, and poisoned outputs.
            numbered = zip(self._fresh, self._numbers, strict=True)
            self._numbers = [fresh.number_after(number) for fresh, number in numbered]
            self._set_inputs()
            self._buffers.poison()
            times.with_ms.append(with_calls.time_replay())
            if not randbelow(index + 1):  # each replay is equally likely to be judged
                numbers, outputs = self._numbers, [_clone(tensor) for tensor in self._kept]
                is_changed = is_changed or self._is_produced_changed()
            times.without_ms.append(without_calls.time_replay())
        del with_calls, without_calls
        self._kernel.close()
        changed = {name for fresh in self._fresh for name in fresh.changed()}
        revealed = Revealed(
            memory=None,
            numbers=[numbers[self._kept_link % _SETS]],
            changed_inputs=sorted(changed.union([self._produced] if is_changed else ())),
            overrun=find_overrun([self._buffers]),
            changed_outputs=[],
        )
        return ChainTrial(times, outputs, revealed)

    def _set_inputs(self) -> None:
        self._inputs = [fresh.set(number) for fresh, number in zip(self._fresh, self._numbers, strict=True)]

    def _bind(self, link: int) -> Callable[[], Any]:
        """Enqueue the producer of a link; return the call behind it."""
        inputs = self._inputs[link % _SETS]
        call = self._caller.bind({**inputs, self._produced: self._place}, self._buffers)
        self._copy(self._written, inputs[self._produced])
        return call

    def _call_link(self, link: int) -> None:
        outputs = self._caller.outputs_of(self._bind(link)(), self._buffers)
        self._consume(link, outputs)

    def _skip_link(self, link: int) -> None:
        self._bind(link)
        self._consume(link, [self._written, *self._buffers.tensors[1:]])

    def _consume(self, link: int, outputs: _Tensors) -> None:
        """Enqueue the consumer of the first output; the one link that may be judged keeps all outputs."""
        is_kept = link == self._kept_link
        for target, output in zip(self._kept if is_kept else [self._sink], outputs, strict=False):
            self._copy(target, output)

    def _copy(self, target: torch.Tensor, source: torch.Tensor) -> None:
        if not source.is_contiguous():
            raise UncapturableError("its output is not contiguous, which the consumer of a chain needs")
        self._kernel.copy(address_of(target), address_of(source), target.nbytes)

    def _is_produced_changed(self) -> bool:
        """Whether the last call changed the input that it was given to read."""
        last = self._inputs[(LINKS - 1) % _SETS][self._produced]
        return self._written is self._place and not same_bits(self._place, last)


def time_chain(make: Callable[[], ChainedCalls], replays: int, budget_s: float) -> ChainTrial:
    """Time one trial on a stream of its own: the default stream cannot be captured.

    Raises what `ChainedCalls.time` raises.
    """
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):  # type: ignore[no-untyped-call]
        trial = make().time(replays, budget_s)
    torch.cuda.empty_cache()  # leaves the memory to other workers
    return trial


def find_produced_input(definition: Definition) -> str:
    """The first of a Definition's tensor inputs with a variable axis: in a model, an earlier kernel writes it."""
    tensors = {name: spec.shape for name, spec in definition.inputs.items() if spec.shape is not None}
    activations = [name for name, shape in tensors.items() if set(shape).intersection(definition.var_axes)]
    return [*activations, *tensors][0]


def _capture(link: Callable[[int], None]) -> CapturedGraph:
    try:
        return CapturedGraph(link, LINKS)
    except RefusalError:
        raise
    except Exception as error:
        raise UncapturableError(describe_exception(error).partition("\n")[0]) from None
