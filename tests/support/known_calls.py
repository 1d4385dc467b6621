"""Tensors for calls of norms whose kernel is known."""

from __future__ import annotations

import torch

HIDDEN = 64


def draw(*shape: int, seed: int = 0, grad: bool = False, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    made = torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return made.to(dtype).requires_grad_(grad)


def known(seed: int = 2, grad: bool = True) -> tuple[torch.Tensor, torch.nn.Parameter]:
    """Tensors of the shape whose kernel is known."""
    return draw(2, 3, HIDDEN, seed=seed, grad=grad), torch.nn.Parameter(draw(HIDDEN, seed=seed + 1))
