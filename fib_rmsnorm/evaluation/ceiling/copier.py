"""What a copier is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from fib_rmsnorm.evaluation.timing.timer import Call


@dataclass(frozen=True)
class CopyVariant:
    """One of a copier's ways to move given amounts of bytes."""

    name: str
    """As recorded: `cuda 256x4`, `cpp 2 threads`."""
    bind: Callable[[torch.Tensor, torch.Tensor], Call]
    """Makes the call for a source and a destination, which may be larger than what is moved."""
    cores: tuple[int, ...] = ()
    """The cores that it keeps busy, on CPU."""


class Copier(Protocol):
    """Reads and writes given amounts of bytes, in several ways from which the fastest is to be chosen."""

    @property
    def cores(self) -> Sequence[int]:
        """The cores that its threads are pinned to, first that for the caller's; empty on a GPU."""
        ...

    @property
    def empty(self) -> Call:
        """What a call costs that moves nothing."""
        ...

    def ways(self, bytes_read: int, bytes_written: int) -> list[CopyVariant]:
        """The ways worth trying for these amounts."""
        ...
