"""How an entry point launches its kernels: recorded without a GPU, since host code chooses the shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from fib_rmsnorm.inspection.facts import KernelBinary, Launch


class AotSession(Protocol):
    """Calls Python entry points with nothing launched, and compiles what they would have launched."""

    @property
    def kernels(self) -> list[KernelBinary]:
        """What has been compiled so far."""

    @property
    def ptx(self) -> list[str]:
        """Its PTX, kernel by kernel; empty where the compiler gives none."""

    @property
    def notes(self) -> list[str]:
        """Remarks on the launches."""

    def call(self, entry: Callable[..., object], arguments: Sequence[object]) -> list[Launch]:
        """Call the entry point and return what it launches."""
