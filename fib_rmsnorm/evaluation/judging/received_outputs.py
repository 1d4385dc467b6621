"""The outputs that workers have transferred to the judge, for one comparison."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from fib_rmsnorm.evaluation.judging.judge_messages import Compare, JudgedCall, TakeOutputs
from fib_rmsnorm.evaluation.tensors.inputs import shape_of, torch_dtype
from fib_rmsnorm.sandbox.asking import Done
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

    def take(self, message: Message) -> Done:
        """Copy outputs that a worker offers in a GPU's memory.

        It may offer anything, so a refusal is fatal: what a false handle has left in this process harms nobody else.
        """
        request = TakeOutputs.model_validate(message)
        try:
            self._taken[request.are_expected] = take(request.memory, request.device)
        except (DeviceMemoryError, RuntimeError) as error:  # torch's, if there is not enough memory
            raise RefusalError("RUNTIME_ERROR", str(error), fatal=True) from None
        return Done()

    def clear(self) -> None:
        """Forget what was copied, or another call could pass with it."""
        self._taken.clear()

    def read(self, request: Compare, workload: Workload) -> list[list[torch.Tensor]]:
        """The outputs to compare, of each call. Raises OutputTransferError if they are missing."""
        return self._read(request, workload, request.outputs_file, are_expected=False)

    def read_reference(self, request: JudgedCall, workload: Workload) -> Sequence[list[torch.Tensor] | None]:
        """The outputs of the Definition's reference for each call; None if they were not transferred."""
        if request.expected_file is None and True not in self._taken:
            return [None] * (1 if request.case is not None else len(request.numbers))
        return self._read(request, workload, request.expected_file, are_expected=True)

    def _read(
        self, request: JudgedCall, workload: Workload, file: int | None, *, are_expected: bool
    ) -> list[list[torch.Tensor]]:
        """All outputs at once: who transferred them could change them meanwhile."""
        like = [
            torch.empty(
                shape_of(request.definition, workload, name) or [], dtype=torch_dtype(spec.dtype.value), device="meta"
            )
            for name, spec in request.definition.outputs.items()
        ]
        every = like * (1 if request.case is not None else len(request.numbers))
        found = (
            view_outputs(self._taken.pop(are_expected, []), every)
            if file is None
            else read_outputs(self._files[file], every)
        )
        here = [output.to(request.device) for output in found]
        return [here[start : start + len(like)] for start in range(0, len(here), len(like))]
