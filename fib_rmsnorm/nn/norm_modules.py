"""RMSNorm and LayerNorm as modules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from fib_rmsnorm.functional.formulas import find_form
from fib_rmsnorm.functional.norms import layer_norm, rms_norm


class RMSNorm(torch.nn.RMSNorm):
    """torch.nn.RMSNorm by the registry's kernels: the same arguments, parameters, state_dict and results.

    `convention` says what is rounded to x's dtype, as in `functional.rms_norm`. With "gemma" the factor is 1 + weight,
    and the weight starts at zero.
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        convention: str = "torch",
    ) -> None:
        find_form(convention)  # refuses a name that is none
        self.convention = convention
        super().__init__(normalized_shape, eps, elementwise_affine, device, dtype)

    def reset_parameters(self) -> None:
        """Set the weight to what leaves the normalised row as it is."""
        if self.convention == "gemma" and self.elementwise_affine:
            torch.nn.init.zeros_(self.weight)
        else:
            super().reset_parameters()

    def forward(self, x: Tensor) -> Tensor:
        """The norm of x, of x's shape and dtype."""
        shape = self.normalized_shape
        if len(shape) == 1 and self.elementwise_affine:
            return rms_norm(x, self.weight, self.eps, convention=self.convention)
        _check_shape(x, shape)
        weight = self.weight.flatten() if self.elementwise_affine else None
        return rms_norm(x.flatten(-len(shape)), weight, self.eps, convention=self.convention).view(x.shape)

    def extra_repr(self) -> str:
        """As torch's, and the convention if it is another."""
        own = "" if self.convention == "torch" else f", convention={self.convention!r}"
        return super().extra_repr() + own


class LayerNorm(torch.nn.LayerNorm):
    """torch.nn.LayerNorm by the registry's kernels: the same arguments, parameters, state_dict and results."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - torch's name
        """The norm of the input, of its shape and dtype."""
        shape = self.normalized_shape
        if len(shape) == 1 and self.elementwise_affine:
            return layer_norm(input, self.weight, self.bias, self.eps)
        _check_shape(input, shape)
        weight, bias = (None if each is None else each.flatten() for each in (self.weight, self.bias))
        return layer_norm(input.flatten(-len(shape)), weight, bias, self.eps).view(input.shape)


def _check_shape(x: Tensor, shape: tuple[int, ...]) -> None:
    if tuple(x.shape[-len(shape) :]) != shape:
        raise ValueError(f"x: expected the last dimensions {list(shape)}, got shape {list(x.shape)}")
