"""Call a built solution in its calling style, check that the call has really finished, and transfer its outputs."""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from time import sleep
from typing import Any

import torch
from torch.utils._device import DeviceContext

from fib_rmsnorm.building import is_compile_error
from fib_rmsnorm.building.build_errors import describe_exception, is_of_solution
from fib_rmsnorm.evaluation.tensors.guarded_memory import require_access
from fib_rmsnorm.evaluation.tensors.output_buffers import OutputBuffers, WrongOutputError, address_of, same_bits
from fib_rmsnorm.evaluation.tensors.strided_rows import copy_whole, spread_rows, view_rows
from fib_rmsnorm.evaluation.worker.device_pages import GuardedPlaces
from fib_rmsnorm.sandbox.asking import DeviceMemory
from fib_rmsnorm.sandbox.channel import RefusalError
from fib_rmsnorm.sandbox.output_transfer import DeviceMemoryError, is_device_memory, offer, write_outputs
from fib_rmsnorm.schema import Definition, Solution, SupportedLanguages

# Long enough for work on another thread or stream to change an output.
_SETTLE_S = 0.01
_SPIN_CYCLES = 2_000_000  # about a millisecond

_HANDLER = "__torch_function__"  # set on a mode itself, it overrides its class's

_ASKS_FOR_GPU = re.compile(r"\.is_cuda\b|\.device\.type\b|\bis_available\(")
"""The condition on which a source may run other code than its kernel."""

_clone, _copy = torch.Tensor.clone, torch.Tensor.copy_
_detach, _contiguous = torch.Tensor.detach, torch.Tensor.contiguous
# To open another process's memory, once for each tensor, takes as long as the way through the host does for this many
# bytes.
_LEAST_BYTES = 1 << 20


class SolutionCaller:
    """One solution's entry point."""

    def __init__(self, entry: Callable[..., Any], definition: Definition, solution: Solution, device: str) -> None:
        self._entry = entry
        self._inputs = list(definition.inputs)
        self._names = list(definition.outputs)
        self._device = device
        self.destination_passing = solution.spec.destination_passing_style
        self.in_place = solution.spec.in_place
        """The inputs in whose memory calls leave outputs, by output."""
        self._places = GuardedPlaces()
        is_interpreted = device == "cpu" and solution.spec.language == SupportedLanguages.TRITON
        self._may_fall_back = is_interpreted and any(_ASKS_FOR_GPU.search(each.content) for each in solution.sources)

    def bind(self, inputs: dict[str, Any], buffers: OutputBuffers) -> Callable[[], Any]:
        """Return a call without arguments. This is what is timed.

        An input that the call overwrites with an output is copied to the buffer of that output now, and passed there.
        """
        outputs = dict(zip(self._names, buffers.tensors, strict=True)) if self.destination_passing else {}
        taken = {source: _copy(outputs.pop(name), inputs[source]) for name, source in self.in_place.items()}
        return partial(self._entry, *{**inputs, **taken}.values(), *outputs.values())

    def _describe_style(self) -> str:
        """Say what the call passes and why, for an entry point that takes other arguments."""
        outputs = [name for name in self._names if name not in self.in_place]
        passed = [*self._inputs, *(outputs if self.destination_passing else [])]
        what, value = (
            ("takes the inputs alone", "false") if self.destination_passing else ("writes to its outputs", "true")
        )
        return (
            f"the function was passed ({', '.join(passed)}); one that {what} needs destination_passing_style = {value}"
            " in a solution.toml"
        )

    def outputs_of(self, returned: Any, buffers: OutputBuffers) -> list[torch.Tensor]:
        """Return a call's outputs in the Definition's order.

        Raises RefusalError if one has another shape or dtype than its buffer, WrongOutputError if they are invalid
        otherwise.
        """
        found = buffers.tensors if self.destination_passing else normalize_outputs(returned, self._names)
        for name, tensor, buffer in zip(self._names, found, buffers.tensors, strict=True):
            if type(tensor) is not torch.Tensor:
                raise WrongOutputError(f"the output {name!r} is a {type(tensor).__name__}: only plain tensors count")
            if tensor.device != torch.device(self._device):
                raise WrongOutputError(f"the output {name!r} is on {tensor.device}, not on {self._device}")
            if tensor.shape != buffer.shape:
                shapes = f"shape {list(tensor.shape)}, expected {list(buffer.shape)}"
                raise RefusalError("INCORRECT_SHAPE", f"{name}: {shapes}")
            if tensor.dtype != buffer.dtype:
                raise RefusalError("INCORRECT_DTYPE", f"{name}: dtype {tensor.dtype}, expected {buffer.dtype}")
            if self._device != "cpu" and tensor.shape.numel() and not is_device_memory(address_of(tensor)):
                # The host could compute it, at a time that no GPU's clock tells.
                raise WrongOutputError(f"the output {name!r} lies in memory of the host, not in the GPU's own")
        if self.destination_passing and (moved := buffers.moved()):
            raise WrongOutputError(f"the call gave the output {moved[0]!r} other memory instead of writing to it")
        if modes := _active_modes():
            # The mode would intercept our own operations on the outputs.
            raise WrongOutputError(f"the call left a torch mode active: {', '.join(modes)}", is_cheat=True)
        if self._device == "cpu":
            require_access(found, writing=False)
        return found

    def run_checked(
        self, inputs: dict[str, Any], buffers: OutputBuffers, *, settle: bool = False
    ) -> tuple[list[torch.Tensor], list[str]]:
        """Call once. Return copies of the outputs, and the names of those that changed after they were copied.

        The copies are what the next user of the current stream sees. They lack what another thread, or a stream that
        nobody joined, writes later. With `settle`, wait for such writes before naming the outputs that changed. Raises
        RefusalError with the status that fits if the call fails.
        """
        with self._blaming_solution():
            if self._device == "cpu":
                found = self.outputs_of(self.bind(inputs, buffers)(), buffers)
                seen = [_clone(tensor) for tensor in found]
                interpreter = sys.modules.get("triton.runtime.interpreter")
                if self._may_fall_back and interpreter and not interpreter.InterpretedFunction.rewritten_fn:
                    raise RefusalError("RUNTIME_ERROR", "on a CPU it launches no kernel")
            else:
                found, seen = self._run_on_late_inputs(inputs, buffers)
            if settle:
                sleep(_SETTLE_S)
            self.synchronize()
            return seen, self.changed(found, seen)

    def run_once(self, inputs: dict[str, Any], buffers: OutputBuffers) -> list[torch.Tensor]:
        """Call once, and wait. Return the outputs themselves. Raises RefusalError as `run_checked` does."""
        with self._blaming_solution():
            found = self.outputs_of(self.bind(inputs, buffers)(), buffers)
            self.synchronize()
            return found

    @contextmanager
    def _blaming_solution(self) -> Iterator[None]:
        """Inside, an exception is the solution's, and becomes a RefusalError."""
        try:
            yield
        except RefusalError:
            raise
        except Exception as error:
            if is_compile_error(error):
                raise RefusalError("COMPILE_ERROR", f"{type(error).__name__}: {error}") from None
            wrong_style = isinstance(error, TypeError) and not is_of_solution(error)
            hint = f"{self._describe_style()}: " if wrong_style else ""
            hint += "it reads or writes beyond a tensor: " if "illegal memory access" in str(error) else ""
            raise RefusalError("RUNTIME_ERROR", f"{hint}{describe_exception(error)}", fatal=True) from None

    def changed(self, now: Sequence[torch.Tensor], seen: Sequence[torch.Tensor]) -> list[str]:
        """Names of the outputs that have changed since they were copied when their call returned."""
        outputs = zip(self._names, now, seen, strict=True)
        return [name for name, after, then in outputs if not same_bits(after, then)]

    def require_separate_memory(self, returned: Sequence[Any]) -> None:
        """Raise WrongOutputError if several calls returned the same memory, although we still hold every output."""
        taken: set[int] = set()
        for outputs in (normalize_outputs(one, self._names) for one in returned):
            addresses = {address for tensor in outputs if (address := address_of(tensor))}  # 0 if it is empty
            if addresses & taken:
                raise WrongOutputError("a call returned the buffer of an earlier one and overwrote that call's output")
            taken |= addresses

    def _run_on_late_inputs(
        self, inputs: dict[str, Any], buffers: OutputBuffers
    ) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """Call before the inputs arrive on the current stream: a call that does not wait for them reads poison."""
        late = {
            name: self._places.empty_like(value, number).fill_(float("nan") if value.is_floating_point() else 0)
            if isinstance(value, torch.Tensor)
            else value
            for number, (name, value) in enumerate(inputs.items())
        }
        strided = [name for name, each in inputs.items() if isinstance(each, torch.Tensor) and not each.is_contiguous()]
        steps = {name: inputs[name].stride(-1) for name in strided}
        late |= {name: view_rows(spread_rows(late[name], step), step) for name, step in steps.items()}
        torch.cuda._sleep(_SPIN_CYCLES)  # type: ignore[no-untyped-call]
        for name, value in inputs.items():
            if isinstance(value, torch.Tensor):
                late[name].copy_(value)
        found = self.outputs_of(self.bind(late, buffers)(), buffers)
        seen = [_clone(tensor) for tensor in found]
        self.synchronize()
        for name, value in inputs.items():
            if isinstance(value, torch.Tensor):
                copy = copy_whole if name in strided else _copy
                copy(value, late[name])  # so that a change of an input is found
        return found, seen

    def synchronize(self) -> None:
        """Wait for the device."""
        if self._device != "cpu":
            torch.cuda.synchronize(self._device)


def _active_modes() -> list[str]:
    """Names of the active torch modes, which intercept torch's functions. A plain default device is harmless."""
    stacked = [torch._C._get_dispatch_stack_at(i) for i in range(torch._C._len_torch_dispatch_stack())]
    stacked += [torch._C._get_function_stack_at(i) for i in range(torch._C._len_torch_function_stack())]
    return [type(mode).__name__ for mode in stacked if type(mode) is not DeviceContext or _HANDLER in vars(mode)]


def normalize_outputs(returned: Any, names: Sequence[str]) -> list[torch.Tensor]:
    """Return the output tensors in the Definition's order.

    Accepts what upstream accepts: a tensor for a single output, a tuple or list, or a dict by name.
    Raises WrongOutputError for anything else.
    """
    found = _unpack(returned, names)
    if len(found) != len(names):
        raise WrongOutputError(f"the call returned {len(found)} values for {len(names)} output(s)")
    for name, value in zip(names, found, strict=True):
        if not issubclass(type(value), torch.Tensor):
            raise WrongOutputError(f"the output {name!r} is a {type(value).__name__}, not a tensor")
    return found


def _unpack(returned: Any, names: Sequence[str]) -> list[Any]:
    """Unpack a container without calling its own methods or those of its keys: they could compute the outputs now."""
    kind = type(returned)  # not `__class__`, which could lie
    if issubclass(kind, torch.Tensor):
        return [returned]
    if issubclass(kind, dict):
        held = {key: value for key, value in dict.items(returned) if type(key) is str}
        missing = [name for name in names if name not in held]
        if missing:
            raise WrongOutputError(f"the returned dict lacks the output {missing[0]!r}")
        return [held[name] for name in names]
    if issubclass(kind, tuple):
        return list(tuple.__iter__(returned))
    if issubclass(kind, list):
        return list(list.__iter__(returned))
    hint = "; return it, or say by in_place in the [spec] which input it replaces" if returned is None else ""
    raise WrongOutputError(f"the call returned a {kind.__name__}; expected {len(names)} tensor(s){hint}")


class Outbox:
    """Transfers the outputs of the last request's calls: large ones in the GPU's memory, others through a file."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._offered: list[torch.Tensor] = []

    def transfer(self, outputs: Sequence[torch.Tensor]) -> list[DeviceMemory] | None:
        """Say where the outputs lie in the GPU's memory; None if they are in the file instead."""
        self._offered = [_contiguous(_detach(tensor)) for tensor in outputs]
        nbytes = sum(tensor.nbytes for tensor in self._offered)
        if self._offered[0].is_cuda and nbytes >= _LEAST_BYTES * len(self._offered):
            try:
                return offer(self._offered)
            except DeviceMemoryError:
                pass  # such as memory of an allocator that lets nobody else open it
        self.write()
        return None

    def write(self) -> None:
        """Write these outputs to the file."""
        write_outputs(self._descriptor, self._offered)
        self.clear()

    def clear(self) -> None:
        """Forget these outputs: the judge has copied them."""
        self._offered = []
