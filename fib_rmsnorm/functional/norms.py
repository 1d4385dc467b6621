"""The norms as functions."""

from __future__ import annotations

from typing import overload

import torch
from torch import Tensor

from fib_rmsnorm.functional import quick_calls
from fib_rmsnorm.functional.argument_checks import check_parameters, check_rows
from fib_rmsnorm.functional.custom_ops import add_norm, norm
from fib_rmsnorm.functional.eager import add_norm_eagerly, norm_eagerly, run_quickly
from fib_rmsnorm.functional.forms import find_form
from fib_rmsnorm.functional.formulas import (
    add_and_normalize,
    add_and_normalize_fusibly,
    normalize,
    normalize_fusibly,
)
from fib_rmsnorm.functional.observers import are_plain, is_transformed, is_watched

_is_compiling = torch.compiler.is_dynamo_compiling
_is_autocast = torch._C._is_any_autocast_enabled

IS_RMS_NORM_AUTOCAST: bool = torch._C._dispatch_has_kernel_for_dispatch_key("aten::rms_norm", "AutocastCUDA")
"""Whether CUDA's autocast has torch's own RMSNorm compute, and return, float32: in torch 2.13, but not in 2.11."""


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
    if eps is None:
        eps = default_eps(x.dtype)
    # What comes first costs the least host time: the kernel of a shape that was met before.
    if not _is_compiling():
        out = (quick_calls.native_run or run_quickly)(convention, x, residual, weight, bias, eps)
        if out is not None:
            return out
    form = find_form(convention)
    check_parameters(x, weight=weight, bias=bias)
    check_rows(x, residual=residual)
    if form == "rmsnorm" and IS_RMS_NORM_AUTOCAST and _is_autocast() and _autocasts(x):
        x, weight, bias, residual = x.float(), _float(weight), _float(bias), _float(residual)
    if residual is None:
        return _norm(form, x, weight, bias, eps)
    return _add_norm(form, x, residual, weight, bias, eps)


def layer_norm(x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5) -> Tensor:
    """LayerNorm over the last dimension: (x - mean) / sqrt(variance + eps) * weight + bias, in x's dtype.

    It computes in float32 and rounds once. `weight` and `bias` have the size of x's last dimension, and x's dtype or
    float32.
    """
    if not _is_compiling() and weight is not None:
        out = (quick_calls.native_run or run_quickly)("layernorm", x, None, weight, bias, eps)
        if out is not None:
            return out
    check_parameters(x, weight=weight, bias=bias)
    if _is_autocast() and _autocasts(x):
        x, weight, bias = x.float(), _float(weight), _float(bias)
    if weight is None:  # no operator of the registry computes this
        return normalize_fusibly("layernorm", x, None, bias, eps)
    return _norm("layernorm", x, weight, bias, eps)


def _norm(form: str, x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    if not _is_compiling():
        if is_transformed():
            return normalize(form, x, weight, bias, eps)
        if are_plain(x, weight, bias) and not is_watched():
            return norm_eagerly(form, x, weight, bias, eps)
    elif _is_fused(x):
        return normalize_fusibly(form, x, weight, bias, eps)
    out: Tensor = norm(x, weight, bias, eps, form)
    return out


def _add_norm(
    form: str, x: Tensor, residual: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor]:
    if not _is_compiling():
        if is_transformed():
            return add_and_normalize(form, x, residual, weight, bias, eps)
        if are_plain(x, residual, weight, bias) and not is_watched():
            return add_norm_eagerly(form, x, residual, weight, bias, eps)
    elif _is_fused(x):
        return add_and_normalize_fusibly(form, x, residual, weight, bias, eps)
    pair: tuple[Tensor, Tensor] = add_norm(x, residual, weight, bias, eps, form)
    return pair


def _is_fused(x: Tensor) -> bool:
    """Whether torch's compiler gets the formula: it joins the norm's loops with those around it.

    That gains more than a kernel does, whose call it cannot look into. A program that is exported keeps the operator,
    as does float64 on a GPU, where the Inductor of torch 2.11 fails.
    """
    # Up to torch 2.11, whoever compiles sees torch.compiler.is_exporting() as true, so this reads what it returns.
    is_exporting = torch.compiler._is_exporting_flag
    return not is_exporting and not (x.is_cuda and x.dtype == torch.float64)


def _autocasts(x: Tensor) -> bool:
    """Whether autocast has torch's own LayerNorm compute, and return, float32."""
    return x.device.type == "cuda" and x.dtype != torch.float64 and torch.is_autocast_enabled("cuda")


def _float(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.float()


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
