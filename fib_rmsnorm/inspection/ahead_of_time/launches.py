"""How an entry point launches its kernels: caught without a GPU, since the host's code chooses the shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from fib_rmsnorm.inspection.machine_code.resources import KernelResources


@dataclass(frozen=True)
class Launch:
    """One launch of a kernel."""

    kernel: int
    """Its number among the kernels that were compiled."""
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    dynamic_shared_bytes: int = 0
    """Shared memory asked for at the launch, beyond what the kernel's resources say."""


class AotSession(Protocol):
    """Calls Python entry points with nothing launched, and compiles what they would have launched."""

    @property
    def kernels(self) -> list[KernelResources]:
        """What has been compiled so far."""

    @property
    def ptx(self) -> list[str]:
        """Its PTX, kernel by kernel; empty where the compiler gives none."""

    @property
    def notes(self) -> list[str]:
        """What to know of the launches."""

    def call(self, entry: Callable[..., object], arguments: Sequence[object]) -> list[Launch]:
        """Call the entry point and return what it launches."""
