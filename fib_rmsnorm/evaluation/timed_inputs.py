"""Inputs that differ from one timed call to the next, at next to no cost.

In every row of every random tensor one element is replaced by a large one, at a place and by a value that a
secret number decides. An output, or a part of it, that was kept from an earlier call (by address, by shape or
by a part of the content) is then a wrong output, and nothing can be computed before the call. That the
addresses stay the same is what lets a cache by address show itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from fib_rmsnorm.evaluation.bits import same_bits
from fib_rmsnorm.evaluation.inputs import generate_input
from fib_rmsnorm.schema import Definition, RandomInput, Workload

# Magnitudes of the elements put in, drawn evenly. Even an output that is wrong by nothing but a mean square of an
# earlier call is beyond the tolerance then: in every row but 0.3% (of 4096 elements; 1% of 32768).
_LEAST_LOUD, _LOUDEST = 16.0, 128.0


class TimedInputs:
    """The inputs of a Workload's timed calls, in place: each call's replace the ones before."""

    def __init__(self, definition: Definition, workload: Workload, device: str, dataset: Path | None) -> None:
        self._definition = definition
        self._workload = workload
        self._device = device
        self._dataset = dataset
        self._generator = torch.Generator(device)
        self._values = {name: self._generate(name) for name in definition.inputs}
        self._rows = {
            # Tensors from files stay as they are: an index in one of them means something.
            name: _as_rows(value)
            for name, value in self._values.items()
            if isinstance(value, torch.Tensor) and value.numel() and _is_random(workload, name)
        }
        self._originals: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = []

    def _generate(self, name: str) -> Any:
        return generate_input(self._definition, self._workload, name, self._device, self._dataset)

    def set(self, number: int) -> dict[str, Any]:
        """The inputs that `number` stands for, in the Definition's order; the same in every process."""
        self._restore()
        self._generator.manual_seed(number)
        for rows in self._rows.values():
            columns = self._draw(rows.shape[1], rows)
            picked = rows.view(-1)[self._draw(rows.numel(), rows)]
            self._originals.append((rows, columns, rows.gather(1, columns)))
            rows.scatter_(1, columns, self._louder(picked))
        return dict(self._values)

    def _draw(self, bound: int, rows: torch.Tensor) -> torch.Tensor:
        """One random index below `bound` for each row."""
        return torch.randint(bound, (rows.shape[0], 1), generator=self._generator, device=rows.device)

    def _louder(self, values: torch.Tensor) -> torch.Tensor:
        """Integers stay within the bounds of what is drawn for them, since they are taken from there."""
        if not values.is_floating_point():
            return values
        magnitudes = torch.empty(values.shape, dtype=torch.float32, device=values.device)
        magnitudes.uniform_(_LEAST_LOUD, _LOUDEST, generator=self._generator)
        return torch.copysign(magnitudes.to(values.dtype), values)

    def _restore(self) -> None:
        for rows, columns, originals in self._originals:
            rows.scatter_(1, columns, originals)
        self._originals.clear()

    def changed(self) -> list[str]:
        """Names of the inputs in which calls have changed anything."""
        self._restore()
        return [
            name
            for name, value in self._values.items()
            if isinstance(value, torch.Tensor) and not same_bits(value, self._generate(name))
        ]


def _is_random(workload: Workload, name: str) -> bool:
    return isinstance(workload.inputs.get(name, RandomInput()), RandomInput)


def _as_rows(tensor: torch.Tensor) -> torch.Tensor:
    flat = tensor.view(-1, tensor.shape[-1]) if tensor.dim() else tensor.view(1, 1)
    return flat.view(torch.uint8) if _is_float8(flat) else flat  # float8 can be neither gathered nor added to


def _is_float8(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() and tensor.element_size() == 1
