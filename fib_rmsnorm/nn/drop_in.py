"""Our modules in the place of another's: they have its parameters, and round as it does."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from fib_rmsnorm.nn.norm_modules import LayerNorm, RMSNorm
from fib_rmsnorm.nn.norm_recognition import RecognisedNorm

_is_autocast = torch._C._is_any_autocast_enabled


class _DropIn:
    """What a replacement adds to our modules: the module whose place it took, for calls that round otherwise."""

    original: tuple[nn.Module]
    """In a tuple, so that it is not a submodule: its parameters are the replacement's own."""
    norm: RecognisedNorm

    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        """Normalize x, [..., hidden]: by a kernel of ours in the calls that were probed, else as the original does."""
        if self.takes(x):
            out: torch.Tensor = super().forward(x)  # type: ignore[misc]
        else:
            out = torch.func.functional_call(self.original[0], dict(self.named_parameters()), (x,))
        return out

    def find_original(self: Any) -> nn.Module:
        """The original, with the parameters and the mode that the model has now."""
        (original,) = self.original
        original._parameters.update(self._parameters)
        found: nn.Module = original.train(self.training)
        return found

    def takes(self: Any, x: torch.Tensor) -> bool:
        """Whether the original computes its formula for x."""
        own = self._parameters
        # self.weight takes 0.5 us, but a parametrized one is nowhere else.
        weight = own["weight"] if "weight" in own else self.weight  # noqa: SIM401
        dtype = x.dtype
        is_autocast = _is_autocast() and torch.is_autocast_enabled(x.device.type)
        return (dtype, dtype if weight is None else weight.dtype, is_autocast) in self.norm.calls


class DropInRMSNorm(_DropIn, RMSNorm):
    """An RMSNorm in the place of a module that computed the same."""


class DropInLayerNorm(_DropIn, LayerNorm):
    """A LayerNorm in the place of a module that computed the same."""


DropIn = DropInRMSNorm | DropInLayerNorm


def make_drop_in(module: nn.Module, norm: RecognisedNorm) -> DropIn:
    """Make a replacement that has the module's own parameters."""
    affine = module._parameters.get("weight") is not None
    convention = norm.formula.convention
    drop_in: DropIn
    if convention == "layer_norm":
        has_bias = module._parameters.get("bias") is not None
        drop_in = DropInLayerNorm(norm.shape, norm.formula.eps or 0.0, affine, has_bias, device="meta")
    else:
        drop_in = DropInRMSNorm(norm.shape, norm.formula.eps, affine, device="meta", convention=convention)
    drop_in._parameters.update(module._parameters)
    drop_in.train(module.training)
    drop_in.original = (module,)
    drop_in.norm = norm
    return drop_in
