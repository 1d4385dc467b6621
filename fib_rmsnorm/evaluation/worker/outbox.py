"""Transfer a solution's outputs to the judge: large ones in the GPU's memory, others through a file in memory."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from fib_rmsnorm.sandbox.asking import DeviceMemory
from fib_rmsnorm.sandbox.output_transfer import DeviceMemoryError, offer, write_outputs

_detach, _contiguous = torch.Tensor.detach, torch.Tensor.contiguous
# To open another process's memory, once for each tensor, takes as long as the way through the host does for this many
# bytes.
_LEAST_BYTES = 1 << 20


class Outbox:
    """The outputs of the last request's calls."""

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
