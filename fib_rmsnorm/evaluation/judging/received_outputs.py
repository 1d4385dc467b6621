"""The outputs that workers have transferred to the judge, for one comparison."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from fib_rmsnorm.evaluation.judging.judge_messages import Compare, JudgedCall, OutputsTaken, TakeOutputs
from fib_rmsnorm.evaluation.tensors.inputs import shape_of, torch_dtype
from fib_rmsnorm.sandbox.channel import Message, RefusalError
from fib_rmsnorm.sandbox.device_memory import DeviceMemoryError, take
from fib_rmsnorm.sandbox.output_transfer import read_outputs, view_outputs
from fib_rmsnorm.schema import Workload


class ReceivedOutputs:
    """Those that were copied from a GPU's memory, until they are compared; others are read from files."""

    def __init__(self, files: Sequence[int]) -> None:
        """`files` are the descriptors of the files that came with the current request."""
        self._files = files
        self._taken: dict[bool, list[torch.Tensor]] = {}
        """Bytes of outputs: those to compare, and with True the reference's."""

    def take(self, message: Message) -> OutputsTaken:
        """Copy outputs that a worker offers in a GPU's memory.

        It may offer anything, so a refusal is fatal: what a false handle has left in this process harms nobody else.
        """
        request = TakeOutputs.model_validate(message)
        try:
            self._taken[request.are_expected] = take(request.memory, request.device)
        except (DeviceMemoryError, RuntimeError) as error:  # torch's, if there is not enough memory
            raise RefusalError("RUNTIME_ERROR", str(error), fatal=True) from None
        return OutputsTaken()

    def clear(self) -> None:
        """Forget what was copied, or another call could pass with it."""
        self._taken.clear()

    def read(self, request: Compare, like: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The outputs to compare, on the device of `like`. Raises OutputTransferError if they are missing."""
        found = self._read(request.outputs_file, like, are_expected=False)
        return [output.to(right.device) for output, right in zip(found, like, strict=True)]

    def read_reference(self, request: JudgedCall, workload: Workload) -> list[torch.Tensor] | None:
        """The outputs of the Definition's reference on a Workload, if they were transferred."""
        if request.expected_file is None and True not in self._taken:
            return None
        like = [
            torch.empty(
                shape_of(request.definition, workload, name) or [], dtype=torch_dtype(spec.dtype.value), device="meta"
            )
            for name, spec in request.definition.outputs.items()
        ]
        found = self._read(request.expected_file, like, are_expected=True)
        return [output.to(request.device) for output in found]

    def _read(self, file: int | None, like: Sequence[torch.Tensor], *, are_expected: bool) -> list[torch.Tensor]:
        if file is None:
            return view_outputs(self._taken.pop(are_expected, []), like)
        return read_outputs(self._files[file], like)
