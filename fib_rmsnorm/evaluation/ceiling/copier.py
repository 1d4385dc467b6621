"""The interface of a copier."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from fib_rmsnorm.evaluation.timing.timer import Call

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class CopyVariant:
    """One variant of a copy of given numbers of bytes."""

    name: str
    """The name that is recorded: `cuda 256x4`, `cpp 2 threads`."""
    bind: Callable[[torch.Tensor, torch.Tensor], Call]
    """Makes the call for a source and a destination, which may be larger than the copy."""
    cores: tuple[int, ...] = ()
    """The cores that the copy uses on a CPU."""


class Copier(Protocol):
    """Reads and writes given numbers of bytes, in several variants of which the fastest is chosen."""

    @property
    def cores(self) -> Sequence[int]:
        """The cores to which its threads are pinned, the caller's first; empty on a GPU."""
        ...

    @property
    def empty(self) -> Call:
        """A call that moves nothing."""
        ...

    def variants(self, bytes_read: int, bytes_written: int) -> list[CopyVariant]:
        """The variants worth trying for these numbers of bytes."""
        ...
