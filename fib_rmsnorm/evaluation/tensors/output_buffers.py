"""Output buffers that show what was written: poisoned inside, and with red zones around."""

from __future__ import annotations

import torch

from fib_rmsnorm.evaluation.tensors.inputs import shape_of, torch_dtype
from fib_rmsnorm.evaluation.tensors.memory_placement import allocate_anywhere
from fib_rmsnorm.schema import Definition, Workload

# All ones: NaN in every floating-point format in use, -1 or 255 in integers. No kernel writes that by chance.
POISON = 255
# An index that is off by one is mostly off by one row: the zones are a few rows wide.
_RED_ZONE_ROWS = 4
_LEAST_RED_ZONE_BYTES = 4096
_ALIGNMENT = 512

_KEPT_CALLS = 4
"""Outputs of so many of the last calls are kept."""
_FEWER_KEPT_BYTES = 256 << 20

address_of = torch.Tensor.data_ptr  # a tensor that a solution had may have got a `data_ptr` of its own


def count_kept_calls(output_bytes: int) -> int:
    """Of how many calls the outputs are kept: fewer if they are large."""
    return _KEPT_CALLS if output_bytes < _FEWER_KEPT_BYTES else _KEPT_CALLS // 2


class OutputBuffers:
    """One set of a Definition's outputs."""

    def __init__(self, definition: Definition, workload: Workload, device: str) -> None:
        self._zones: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
        self._insides: list[torch.Tensor] = []
        self.tensors: list[torch.Tensor] = []
        for name, spec in definition.outputs.items():
            dtype = torch_dtype(spec.dtype.value)
            shape = torch.Size(shape_of(definition, workload, name) or [])
            zone = _zone_bytes(shape, dtype)
            raw = allocate_anywhere(shape.numel() * dtype.itemsize + 2 * zone, device).fill_(POISON)
            inside = raw[zone : raw.numel() - zone]
            self._zones[name] = raw[:zone], raw[raw.numel() - zone :]
            self._insides.append(inside)
            self.tensors.append(inside.view(dtype).view(shape))
        self._addresses = [address_of(tensor) for tensor in self.tensors]

    def poison(self) -> None:
        """Make every element one that the kernel has yet to write. The red zones keep what any call did to them."""
        for inside in self._insides:
            inside.fill_(POISON)

    def moved(self) -> list[str]:
        """Names of the outputs that a call has given other memory, which their caller knows nothing of."""
        places = zip(self._zones, self.tensors, self._addresses, strict=True)
        return [name for name, tensor, address in places if address_of(tensor) != address]

    def overrun(self) -> list[str]:
        """Names of the outputs beyond whose ends something was written."""
        if not self._zones:
            return []
        # All at once, since a GPU is waited for at each look.
        written = torch.stack([(zone != POISON).any() for zones in self._zones.values() for zone in zones]).tolist()
        return [
            name
            for name, before, behind in zip(self._zones, written[::2], written[1::2], strict=True)
            if before or behind
        ]


def _zone_bytes(shape: torch.Size, dtype: torch.dtype) -> int:
    row = (shape[-1] if shape else 1) * dtype.itemsize
    return -(-max(_LEAST_RED_ZONE_BYTES, _RED_ZONE_ROWS * row) // _ALIGNMENT) * _ALIGNMENT
