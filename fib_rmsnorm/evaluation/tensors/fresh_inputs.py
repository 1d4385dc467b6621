"""Inputs that differ from one timed call to the next, at almost no cost.

In every row of every random tensor, one element is replaced by a large one. A secret number decides its place and its
value, so nothing can be computed before the call. An output that a solution has kept from an earlier call (by address,
by shape or by part of the content) is wrong then, and so is any part of it. The addresses stay the same for
some calls, which exposes caches by address.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from secrets import randbits
from typing import Any

import torch

from fib_rmsnorm.evaluation.tensors.inputs import DeviceWorkload, generate_alone, generate_inputs, is_random
from fib_rmsnorm.evaluation.tensors.output_buffers import as_integers, copy_to_random_place, same_bits
from fib_rmsnorm.operators import derive_inputs

# The magnitudes of the new elements, uniformly distributed. They are large enough that an output which only uses the
# mean square of an earlier call exceeds the tolerance in 99.7% of all rows of 4096 elements (99% of 32768).
_MIN_MAGNITUDE, _MAX_MAGNITUDE = 16.0, 128.0
# Replacements are drawn for many calls at once, so that a call needs one small kernel per tensor rather than nine. On a
# GPU, each of them takes 15 us of the host's time and is waited for.
_MAX_DRAWS = 64
_MAX_DRAWN_ELEMENTS = 1 << 20
_SEED_BITS = 54


@dataclass(frozen=True)
class _Draw:
    """Replacements in the rows of a tensor, by number. All values are integers of the elements' size."""

    rows: torch.Tensor
    places: Sequence[torch.Tensor]
    """Two columns for each row: that of the number before, and the number's own. Each `[rows, 2]`."""
    values: Sequence[torch.Tensor]
    """The values of these two columns at the number: the original element, and the new one."""
    originals: Sequence[torch.Tensor]
    """The original elements of the number's own column. Each `[rows, 1]`."""

    def put(self, number: int) -> None:
        """Put in the new values of a number, and the original ones where the number before it had its own."""
        self.rows.scatter_(1, self.places[number], self.values[number])

    def restore(self, number: int) -> None:
        """Put in the original values of a number."""
        self.rows.scatter_(1, self.places[number][:, 1:], self.originals[number])


class FreshInputs:
    """The inputs of a Workload's timed calls, which are changed in place from call to call."""

    def __init__(self, timed: DeviceWorkload) -> None:
        self._of = timed
        definition, workload = timed.definition, timed.workload
        self._generator = torch.Generator(timed.device)
        self._values = generate_inputs(timed)
        self._derived = [name for name in derive_inputs(definition, self._values) if is_random(workload, name)]
        self._seed: int | None = None
        self._drawn: list[_Draw] = []
        """The replacements of all numbers of the seed."""
        self.move()
        elements = sum(rows.shape[0] for rows in self._rows)
        self._draws = max(1, min(_MAX_DRAWS, _MAX_DRAWN_ELEMENTS // max(1, elements)))
        self._column: int | None = None
        """The place of the number that is set among those of its seed."""

    def move(self) -> None:
        """On a GPU, move the inputs elsewhere in memory. What calls have changed moves with them, to be found."""
        for name, value in self._values.items():
            if isinstance(value, torch.Tensor):
                self._values[name] = copy_to_random_place(value)
        # Tensors from files stay as they are: they may hold indices, which must stay valid.
        random = [self._values[name] for name in self._own if is_random(self._of.workload, name)]
        self._rows = [_as_rows(value) for value in random if value.numel()]
        self._drawn = [
            replace(draw, rows=as_integers(rows)) for draw, rows in zip(self._drawn, self._rows, strict=False)
        ]

    @property
    def tensors(self) -> list[torch.Tensor]:
        """The inputs that are tensors."""
        return [value for value in self._values.values() if isinstance(value, torch.Tensor)]

    @property
    def _own(self) -> list[str]:
        """The inputs that are not made from others."""
        return [name for name in self._values if name not in self._derived]

    def number_after(self, number: int | None) -> int:
        """The number of the next call's inputs. After the last number of a seed, it comes from a new secret seed."""
        if number is None or (number + 1) % self._draws == 0:
            return randbits(_SEED_BITS) * self._draws
        return number + 1

    def set(self, number: int) -> dict[str, Any]:
        """Set the inputs to those of `number`, and return them in the Definition's order.

        They are the same in every process.
        """
        seed, column = divmod(number, self._draws)
        if seed != self._seed or column - 1 != self._column:
            self._restore()
        if seed != self._seed:
            self._generator.manual_seed(seed)
            self._seed, self._drawn = seed, [self._draw(rows) for rows in self._rows]
        for draw in self._drawn:
            draw.put(column)
        self._column = column
        self._derive()
        return dict(self._values)

    def _derive(self) -> None:
        """Let the inputs that are made from others fit them again."""
        if self._derived:
            made = derive_inputs(self._of.definition, self._values)
            for name in self._derived:
                self._values[name].copy_(made[name])

    def _draw(self, rows: torch.Tensor) -> _Draw:
        places = self._places(rows)
        picked = rows.view(-1)[self._indices(0, rows.numel(), rows.shape[0], self._draws)]
        new, originals = as_integers(self._with_large_magnitudes(picked)), as_integers(rows.gather(1, places))
        before = [0, *range(self._draws - 1)]  # the first number comes after none
        kept = torch.where(places[:, before] == places, new, originals[:, before])  # rows of one element have one place
        pairs = ((places[:, before], places), (kept, new))
        columns, values = (torch.stack(pair, 2).transpose(0, 1).contiguous().unbind() for pair in pairs)
        return _Draw(as_integers(rows), columns, values, originals.t().unsqueeze(2).unbind())

    def _places(self, rows: torch.Tensor) -> torch.Tensor:
        """A random column for each row and number. Consecutive numbers never have the same one."""
        count, columns = rows.shape
        if columns == 1:
            return torch.zeros((count, self._draws), dtype=torch.int64, device=rows.device)
        first = self._indices(0, columns, count, 1)
        further = self._indices(1, columns, count, self._draws - 1)
        return torch.cat((first, further), dim=1).cumsum(dim=1) % columns

    def _indices(self, low: int, high: int, *shape: int) -> torch.Tensor:
        return torch.randint(low, high, shape, generator=self._generator, device=self._of.device)

    def _with_large_magnitudes(self, values: torch.Tensor) -> torch.Tensor:
        """Give floats large magnitudes. Integers stay as they are, since larger ones could be invalid."""
        if not values.is_floating_point():
            return values
        magnitudes = torch.empty(values.shape, dtype=torch.float32, device=values.device)
        magnitudes.uniform_(_MIN_MAGNITUDE, _MAX_MAGNITUDE, generator=self._generator)
        return torch.copysign(magnitudes.to(values.dtype), values)

    def _restore(self) -> None:
        if self._column is not None:
            for draw in self._drawn:
                draw.restore(self._column)
            self._column = None

    def changed(self) -> list[str]:
        """Names of the inputs that calls have changed."""
        fitting = derive_inputs(self._of.definition, self._values) if self._derived else {}
        changed = [name for name in self._derived if not same_bits(self._values[name], fitting[name])]
        self._restore()
        self._derive()  # they fitted the inputs before
        pairs = ((name, self._values[name], generate_alone(self._of, name)) for name in self._own)
        return changed + [
            name for name, value, made in pairs if isinstance(value, torch.Tensor) and not same_bits(value, made)
        ]


def _as_rows(tensor: torch.Tensor) -> torch.Tensor:
    flat = tensor.view(-1, tensor.shape[-1]) if tensor.dim() else tensor.view(1, 1)
    is_float8 = flat.is_floating_point() and flat.element_size() == 1
    return flat.view(torch.uint8) if is_float8 else flat  # torch can neither gather nor add float8
