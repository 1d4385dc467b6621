"""Which kernel serves a call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fib_rmsnorm.deployment.kernels import KERNELS, BuiltKernel, shipped_solutions

if TYPE_CHECKING:
    import torch


def find_kernel(operator: str, device: torch.device, dtype: torch.dtype, rows: int, hidden: int) -> BuiltKernel | None:
    """The kernel for a shape, built if it is not yet; None if torch shall serve."""
    name = f"{operator}_cpp_simd_v1"
    if device.type != "cpu" or name not in shipped_solutions():
        return None
    return KERNELS.find(name, device)
