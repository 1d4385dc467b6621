"""The norms as functions."""

from __future__ import annotations

from typing import overload

import torch
from torch import Tensor

from fib_rmsnorm.functional.custom_ops import add_norm, norm
from fib_rmsnorm.functional.forms import CONVENTIONS


@overload
def rms_norm(
    x: Tensor,
    weight: Tensor | None = None,
    eps: float | None = 1e-6,
    *,
    bias: Tensor | None = None,
    residual: None = None,
    convention: str = "torch",
) -> Tensor: ...
@overload
def rms_norm(
    x: Tensor,
    weight: Tensor | None = None,
    eps: float | None = 1e-6,
    *,
    bias: Tensor | None = None,
    residual: Tensor,
    convention: str = "torch",
) -> tuple[Tensor, Tensor]: ...
def rms_norm(
    x: Tensor,
    weight: Tensor | None = None,
    eps: float | None = 1e-6,
    *,
    bias: Tensor | None = None,
    residual: Tensor | None = None,
    convention: str = "torch",
) -> Tensor | tuple[Tensor, Tensor]:
    """RMSNorm over the last dimension: x / sqrt(mean(x^2) + eps) * weight + bias, in x's dtype.

    With a residual, of x's shape and dtype, the sum x + residual is normalised; the result is then the norm and the
    sum. `weight` and `bias` have the size of x's last dimension, and x's dtype or float32. An eps of None is the one
    that torch takes for x's dtype.

    The convention says what is rounded to x's dtype: with "torch" the result alone, of float32 arithmetic; with "llama"
    also the sum and the normalised row, before the weight (Hugging Face's LlamaRMSNorm); "gemma" is "torch" with the
    factor 1 + weight.
    """
    form = CONVENTIONS.get(convention)
    if form is None:
        raise ValueError(f"convention: expected one of {', '.join(map(repr, CONVENTIONS))}, got {convention!r}")
    _check(x, weight, bias, residual)
    if eps is None:
        eps = default_eps(x.dtype)
    if residual is None:
        out: Tensor = norm(x, weight, bias, eps, form)
        return out
    pair: tuple[Tensor, Tensor] = add_norm(x, residual, weight, bias, eps, form)
    return pair


def layer_norm(x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5) -> Tensor:
    """LayerNorm over the last dimension: (x - mean) / sqrt(variance + eps) * weight + bias, in x's dtype.

    It computes in float32 and rounds once. `weight` and `bias` have the size of x's last dimension, and x's dtype or
    float32.
    """
    _check(x, weight, bias, None)
    out: Tensor = norm(x, weight, bias, eps, "layernorm")
    return out


def default_eps(dtype: torch.dtype) -> float:
    """The eps that this version of torch takes where RMSNorm is given none."""
    return _DEFAULT_EPS.get(dtype, torch.finfo(torch.float32).eps)


def _ask_torch(dtype: torch.dtype) -> float:
    """Torch 2.8 takes the epsilon of x's dtype, later versions that of the dtype in which they compute."""
    tiny = torch.full((1, 1), 2.0**-12, dtype=dtype)
    own = torch.finfo(dtype).eps
    is_own = torch.nn.functional.rms_norm(tiny, (1,)).item() < 0.1 and own > 1e-4
    return own if is_own or dtype == torch.float64 else torch.finfo(torch.float32).eps


_DEFAULT_EPS = {dtype: _ask_torch(dtype) for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64)}


def _check(x: Tensor, weight: Tensor | None, bias: Tensor | None, residual: Tensor | None) -> None:
    """Raise ValueError or TypeError for tensors that no norm takes."""
    if x.dim() == 0:
        raise ValueError("x: expected at least one dimension, got a scalar")
    if not x.is_floating_point():
        raise TypeError(f"x: expected a floating-point dtype, got {x.dtype}")
    for name, tensor in (("weight", weight), ("bias", bias)):
        if tensor is None:
            continue
        if tensor.dim() != 1 or tensor.shape[0] != x.shape[-1]:
            raise ValueError(f"{name}: expected shape [{x.shape[-1]}] as x's last dimension, got {list(tensor.shape)}")
        if tensor.device != x.device:
            raise ValueError(f"{name}: expected device {x.device} as x, got {tensor.device}")
    if residual is None:
        return
    if residual.shape != x.shape or residual.dtype != x.dtype or residual.device != x.device:
        raise ValueError(
            f"residual: expected x's shape {list(x.shape)}, dtype {x.dtype} and device {x.device}, "
            f"got {list(residual.shape)}, {residual.dtype} and {residual.device}"
        )
