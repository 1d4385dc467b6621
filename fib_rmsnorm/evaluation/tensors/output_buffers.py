"""Output buffers that show what a call wrote: they are filled with poison and lie between red zones.

They lie at random addresses, as do the inputs of timed calls. The address decides which slices of a GPU's L2 cache and
which memory channels serve a tensor. On an H200, medians of one kernel of 2 to 3 us differed by up to 2% between
places, and by 0.5% at the same place: a process that never moves its tensors reproduces its own number well, but not
that of another process.
"""

import random
from collections.abc import Callable, Iterable

import torch

from fib_rmsnorm.evaluation.tensors.inputs import DeviceWorkload, shape_of, torch_dtype
from fib_rmsnorm.sandbox.channel import RefusalError

_detach = torch.Tensor.detach  # the class's, because a solution can set another `detach` on a tensor
_INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def same_bits(actual: torch.Tensor, expected: torch.Tensor) -> bool:
    """Whether two tensors of the same shape and dtype have the same bits."""
    return torch.equal(as_bytes(actual), as_bytes(expected))


def as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes of a tensor in order, as a flat view if it is contiguous."""
    whole = _detach(tensor).contiguous()
    # A single element may have any stride and is contiguous: `view` would keep the stride.
    return whole.as_strided((whole.numel(),), (1,)).view(torch.uint8)


def as_integers(tensor: torch.Tensor) -> torch.Tensor:
    """A view of a tensor's elements as integers of their size.

    To change a few 16-bit floats on a CPU, some of torch's operators convert the whole tensor to float32 and back
    (`scatter_`: 20 ms for 32 MB, which also replaces the contents of the caches).
    """
    return tensor.view(_INTEGERS[tensor.element_size()])


# All bits set: NaN in every floating-point format in use, -1 or 255 in integers. No kernel writes that by chance.
POISON = 255
# An index that is off by one is usually off by one row, so the zones are a few rows wide.
_RED_ZONE_ROWS = 4
_MIN_RED_ZONE_BYTES = 4096
_ALIGNMENT = 512
_SPARE_BYTES = 8 << 20

_KEPT_CALLS = 4
"""The number of recent calls whose outputs are kept."""
_LARGE_OUTPUT_BYTES = 256 << 20

address_of = torch.Tensor.data_ptr  # the class's, because a solution can set another `data_ptr` on a tensor


class WrongOutputError(RefusalError):
    """The outputs of a call are not those of the Definition."""

    def __init__(self, message: str, *, is_cheat: bool = False) -> None:
        super().__init__("RUNTIME_ERROR", message, is_cheat=is_cheat)


def count_kept_calls(output_bytes: int) -> int:
    """The number of recent calls whose outputs are kept: half as many if the outputs are large."""
    return _KEPT_CALLS if output_bytes < _LARGE_OUTPUT_BYTES else _KEPT_CALLS // 2


class OutputBuffers:
    """Buffers for one set of a Definition's outputs."""

    def __init__(self, called: DeviceWorkload, allocate: Callable[[int, str], torch.Tensor] | None = None) -> None:
        """`allocate` returns so many bytes on a device; by default, at a random place."""
        definition, workload, device = called.definition, called.workload, called.device
        allocate = allocate or allocate_at_random_place
        self._zones: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
        self._insides: list[torch.Tensor] = []
        self.tensors: list[torch.Tensor] = []
        for name, spec in definition.outputs.items():
            dtype = torch_dtype(spec.dtype.value)
            shape = torch.Size(shape_of(definition, workload, name) or [])
            row = (shape[-1] if shape else 1) * dtype.itemsize
            zone = -(-max(_MIN_RED_ZONE_BYTES, _RED_ZONE_ROWS * row) // _ALIGNMENT) * _ALIGNMENT
            raw = allocate(shape.numel() * dtype.itemsize + 2 * zone, device).fill_(POISON)
            inside = raw[zone : raw.numel() - zone]
            self._zones[name] = raw[:zone], raw[raw.numel() - zone :]
            self._insides.append(inside)
            self.tensors.append(inside.view(dtype).view(shape))
        self._addresses = [address_of(tensor) for tensor in self.tensors]

    def poison(self) -> None:
        """Fill the outputs with poison. The red zones are not restored, so they show the writes of every call."""
        for inside in self._insides:
            inside.fill_(POISON)

    def moved(self) -> list[str]:
        """Names of the outputs to which a call has given other memory, where their caller does not look."""
        places = zip(self._zones, self.tensors, self._addresses, strict=True)
        return [name for name, tensor, address in places if address_of(tensor) != address]

    def list_zones(self) -> list[tuple[str, torch.Tensor]]:
        """The red zones, each with the name of its output."""
        return [(name, zone) for name, zones in self._zones.items() for zone in zones]


def find_overrun(buffers: Iterable[OutputBuffers]) -> list[str]:
    """Names of the outputs beyond whose ends something was written in any of these buffers."""
    zones = [zone for one in buffers for zone in one.list_zones()]
    # All at once: each answer waits for the GPU.
    if not zones or not (torch.cat([zone for _, zone in zones]) != POISON).any():
        return []
    return sorted({name for name, zone in zones if (zone != POISON).any()})


def allocate_at_random_place(nbytes: int, device: str) -> torch.Tensor:
    """Allocate bytes: on a GPU at a random place of a larger allocation, on a CPU anywhere."""
    if device == "cpu":
        return torch.empty(nbytes, dtype=torch.uint8)
    memory = torch.empty(nbytes + _SPARE_BYTES, dtype=torch.uint8, device=device)
    offset = random.randrange(0, _SPARE_BYTES, _ALIGNMENT)
    return memory[offset : offset + nbytes]


def copy_to_random_place(tensor: torch.Tensor) -> torch.Tensor:
    """Copy a contiguous tensor to a random place. Returns the tensor itself on a CPU, or if it is not contiguous."""
    if tensor.device.type == "cpu" or not tensor.is_contiguous():
        return tensor
    place = allocate_at_random_place(tensor.nbytes, str(tensor.device))
    return place.view(tensor.dtype).view(tensor.shape).copy_(tensor)
