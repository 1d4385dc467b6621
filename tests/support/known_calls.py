"""Calls of norms: their tensors, what is right, and what serves those whose kernel is known."""

import pytest
import torch

from fib_rmsnorm.functional import custom_ops

HIDDEN = 64


def draw(*shape: int, seed: int = 0, grad: bool = False, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    made = torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return made.to(dtype).requires_grad_(grad)


def known(seed: int = 2, grad: bool = True) -> tuple[torch.Tensor, torch.nn.Parameter]:
    """Tensors of the shape whose kernel is known."""
    return draw(2, 3, HIDDEN, seed=seed, grad=grad), torch.nn.Parameter(draw(HIDDEN, seed=seed + 1))


def serve_in_python(patch: pytest.MonkeyPatch) -> None:
    """Have torch's formulas serve calls whose kernel is known, as where C++ does not compile."""
    custom_ops.forget_quick_calls()
    patch.setattr(custom_ops, "_native", None)
    patch.setattr(custom_ops, "quick_norm", custom_ops._know_nothing)
    patch.setattr(custom_ops, "load_native_calls", lambda: "not wanted")
