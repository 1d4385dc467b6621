"""Inputs that differ from one timed call to the next, at next to no cost.

In every row of every random tensor one element is replaced by a large one, at a place and by a value that a
secret number decides. An output, or a part of it, that was kept from an earlier call (by address, by shape or
by a part of the content) is then a wrong output, and nothing can be computed before the call. That the
addresses stay the same throughout a trial is what lets a cache by address show itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from secrets import randbits
from typing import Any

import torch

from fib_rmsnorm.evaluation.tensors.bits import as_integers, same_bits
from fib_rmsnorm.evaluation.tensors.inputs import generate_input
from fib_rmsnorm.evaluation.tensors.memory_placement import move_anywhere
from fib_rmsnorm.schema import Definition, RandomInput, Workload

# Magnitudes of the elements put in, drawn evenly. Even an output that is wrong by nothing but a mean square of an
# earlier call is beyond the tolerance then: in every row but 0.3% (of 4096 elements; 1% of 32768).
_LEAST_LOUD, _LOUDEST = 16.0, 128.0
# Several calls' replacements are drawn at once, so that a call costs one small kernel for each tensor, not nine: on a
# GPU, each costs 15 us of the host's time and is waited for.
_MOST_DRAWS = 64
_MOST_DRAWN_ELEMENTS = 1 << 20
_SEED_BITS = 54


@dataclass(frozen=True)
class _Draw:
    """Replacements in the rows of a tensor, a column for each number: where, what was there, and what is put there."""

    rows: torch.Tensor
    places: torch.Tensor
    originals: torch.Tensor
    replacements: torch.Tensor

    @property
    def has_steps(self) -> bool:
        """Whether each number's places are others than those of the number before."""
        return self.rows.shape[1] > 1

    @cached_property
    def _steps(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Of each number but the last: where the next differs, and by what."""
        places = torch.stack((self.places[:, :-1], self.places[:, 1:]), dim=2)
        values = torch.stack((self.originals[:, :-1], self.replacements[:, 1:]), dim=2)
        columns = [tensor.transpose(0, 1).contiguous().unbind() for tensor in (places, as_integers(values))]
        return list(zip(*columns, strict=True))

    def put(self, column: int) -> None:
        """Put in what stands for a number; nothing may be put in yet."""
        self._write(column, self.replacements)

    def take_out(self, column: int) -> None:
        """Undo it."""
        self._write(column, self.originals)

    def _write(self, column: int, values: torch.Tensor) -> None:
        one = slice(column, column + 1)
        as_integers(self.rows).scatter_(1, self.places[:, one], as_integers(values)[:, one])

    def step_to(self, column: int) -> None:
        """Put in what stands for a number, and undo what stands for the one before."""
        as_integers(self.rows).scatter_(1, *self._steps[column - 1])


class FreshInputs:
    """The inputs of a Workload's timed calls, in place: each call's replace the ones before."""

    def __init__(self, definition: Definition, workload: Workload, device: str, dataset: Path | None) -> None:
        self._definition = definition
        self._workload = workload
        self._device = device
        self._dataset = dataset
        self._generator = torch.Generator(device)
        self._values = {name: self._place(name) for name in definition.inputs}
        self._rows = [
            # Tensors from files stay as they are: an index in one of them means something.
            _as_rows(value)
            for name, value in self._values.items()
            if isinstance(value, torch.Tensor) and value.numel() and _is_random(workload, name)
        ]
        elements = sum(rows.shape[0] for rows in self._rows)
        self._draws = max(1, min(_MOST_DRAWS, _MOST_DRAWN_ELEMENTS // max(1, elements)))
        self._seed: int | None = None
        self._drawn: list[_Draw] = []
        self._column: int | None = None
        """Of the number that is set."""

    def _generate(self, name: str) -> Any:
        return generate_input(self._definition, self._workload, name, self._device, self._dataset)

    def _place(self, name: str) -> Any:
        value = self._generate(name)
        return move_anywhere(value) if isinstance(value, torch.Tensor) else value

    def number_after(self, number: int | None) -> int:
        """The number of the next call's inputs: its seed is a new secret as soon as one is used up."""
        if number is None or (number + 1) % self._draws == 0:
            return randbits(_SEED_BITS) * self._draws
        return number + 1

    def set(self, number: int) -> dict[str, Any]:
        """The inputs that `number` stands for, in the Definition's order; the same in every process."""
        seed, column = divmod(number, self._draws)
        if seed == self._seed and column - 1 == self._column and all(draw.has_steps for draw in self._drawn):
            for draw in self._drawn:
                draw.step_to(column)
        else:
            self._restore()
            if seed != self._seed:
                self._generator.manual_seed(seed)
                self._seed, self._drawn = seed, [self._draw(rows) for rows in self._rows]
            for draw in self._drawn:
                draw.put(column)
        self._column = column
        return dict(self._values)

    def _draw(self, rows: torch.Tensor) -> _Draw:
        places = self._places(rows)
        picked = rows.view(-1)[self._indices(0, rows.numel(), rows.shape[0], self._draws)]
        return _Draw(rows, places, rows.gather(1, places), self._louder(picked))

    def _places(self, rows: torch.Tensor) -> torch.Tensor:
        """A random column for each row and number, and for no two numbers in succession the same one."""
        count, columns = rows.shape
        if columns == 1:
            return torch.zeros((count, self._draws), dtype=torch.int64, device=rows.device)
        first = self._indices(0, columns, count, 1)
        further = self._indices(1, columns, count, self._draws - 1)
        return torch.cat((first, further), dim=1).cumsum(dim=1) % columns

    def _indices(self, low: int, high: int, *shape: int) -> torch.Tensor:
        return torch.randint(low, high, shape, generator=self._generator, device=self._device)

    def _louder(self, values: torch.Tensor) -> torch.Tensor:
        """Integers stay within the bounds of what is drawn for them, since they are taken from there."""
        if not values.is_floating_point():
            return values
        magnitudes = torch.empty(values.shape, dtype=torch.float32, device=values.device)
        magnitudes.uniform_(_LEAST_LOUD, _LOUDEST, generator=self._generator)
        return torch.copysign(magnitudes.to(values.dtype), values)

    def _restore(self) -> None:
        if self._column is not None:
            for draw in self._drawn:
                draw.take_out(self._column)
            self._column = None

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
