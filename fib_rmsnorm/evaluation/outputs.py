"""Output buffers that show what was written: poisoned inside, and with red zones around."""

from __future__ import annotations

import torch

from fib_rmsnorm.evaluation.inputs import shape_of, torch_dtype
from fib_rmsnorm.schema import Definition, Workload

_RED_ZONE_BYTES = 4096
# All ones: NaN in every floating-point format in use, -1 or 255 in integers. No kernel writes that by chance.
POISON = 255


class OutputBuffers:
    """One set of a Definition's outputs."""

    def __init__(self, definition: Definition, workload: Workload, device: str) -> None:
        self._raw: dict[str, torch.Tensor] = {}
        self.tensors: list[torch.Tensor] = []
        for name, spec in definition.outputs.items():
            dtype = torch_dtype(spec.dtype.value)
            shape = shape_of(definition, workload, name) or []
            size = torch.Size(shape).numel() * dtype.itemsize
            raw = torch.full((size + 2 * _RED_ZONE_BYTES,), POISON, dtype=torch.uint8, device=device)
            self._raw[name] = raw
            self.tensors.append(raw[_RED_ZONE_BYTES : _RED_ZONE_BYTES + size].view(dtype).view(shape))

    def poison(self) -> None:
        """Make every element one that the kernel has yet to write."""
        for raw in self._raw.values():
            raw.fill_(POISON)

    def overrun(self) -> list[str]:
        """Names of the outputs beyond whose ends something was written."""
        return [
            name
            for name, raw in self._raw.items()
            if bool((raw[:_RED_ZONE_BYTES] != POISON).any() | (raw[-_RED_ZONE_BYTES:] != POISON).any())
        ]
