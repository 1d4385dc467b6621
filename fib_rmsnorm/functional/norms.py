"""The norms as functions, and which kernel serves them."""

from dataclasses import replace
from pathlib import Path
from typing import Any, overload

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import functional as torch_functional

from fib_rmsnorm.deployment.kernels import KernelChoice, serve_from
from fib_rmsnorm.functional import custom_ops
from fib_rmsnorm.functional.formulas import check_convention, compute_dtype, normalize

_is_compiling = torch.compiler.is_dynamo_compiling

_IS_RMS_NORM_AUTOCAST: bool = torch._C._dispatch_has_kernel_for_dispatch_key("aten::rms_norm", "AutocastCUDA")
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
    if convention != "layernorm" and not _is_compiling():  # C++ knows this one, RMSNorm does not
        out: Any = custom_ops.quick_norm(convention, x, residual, weight, bias, eps)
        if out is not None:
            return out  # type: ignore[no-any-return]
    check_convention(convention)
    _check_parameters(x, weight=weight, bias=bias)
    if residual is not None and (residual.shape, residual.dtype, residual.device) != (x.shape, x.dtype, x.device):
        raise ValueError(
            f"residual: expected x's shape {list(x.shape)}, dtype {x.dtype} and device {x.device}, "
            f"got {list(residual.shape)}, {residual.dtype} and {residual.device}"
        )
    normed: Tensor | tuple[Tensor, Tensor] = _norm(convention, x, residual, weight, bias, eps)
    return normed


def layer_norm(x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5) -> Tensor:
    """LayerNorm over the last dimension: (x - mean) / sqrt(variance + eps) * weight + bias, in x's dtype.

    It computes in float32 and rounds once. `weight` and `bias` have the size of x's last dimension, and x's dtype or
    float32.
    """
    if not _is_compiling() and weight is not None:
        out: Tensor | None = custom_ops.quick_norm("layernorm", x, None, weight, bias, eps)
        if out is not None:
            return out
    _check_parameters(x, weight=weight, bias=bias)
    normed: Tensor = _norm("layernorm", x, None, weight, bias, eps)
    return normed


def why(
    x: Tensor,
    weight: Tensor | None = None,
    *,
    bias: Tensor | None = None,
    residual: Tensor | None = None,
    convention: str = "torch",
) -> KernelChoice:
    """The kernel that `rms_norm` takes for these tensors, by which Trace, and why; "layernorm" for `layer_norm`.

    Print it, or read its `kernel`, `trace` and `passed_over`. A kernel that is not built yet is built.
    """
    if convention != "layernorm":
        check_convention(convention)
    chosen, _ = custom_ops.find_kernel(convention, x, weight, bias, has_residual=residual is not None)
    passes = 0 if residual is not None else custom_ops.count_torchs_passes(convention, x, weight, bias)
    said = f"with gradients torch serves the forward pass{' and the backward pass' if passes == 2 else ''}"
    return replace(chosen, passed_over=(*chosen.passed_over, said)) if passes else chosen


def use_registry(root: str | Path | None) -> None:
    """Take the kernels from another registry, where `fib-rmsnorm deploy` has run; None: from the one that is shipped.

    Its Solutions run in this process, with all that it may do: name only a registry whose sources you trust.
    """
    serve_from(None if root is None else Path(root))
    custom_ops.forget_quick_calls()


def _check_parameters(x: Tensor, **parameters: Tensor | None) -> None:
    """Refuse an x without floats or dimensions, and a parameter that lacks one element for each column of x.

    Raises ValueError or TypeError, whichever kernel serves.
    """
    if x.dim() == 0:
        raise ValueError("x: expected at least one dimension, got a scalar")
    if not x.is_floating_point():
        raise TypeError(f"x: expected a floating-point dtype, got {x.dtype}")
    for name, tensor in parameters.items():
        if tensor is None:
            continue
        if tensor.dim() != 1 or tensor.shape[0] != x.shape[-1]:
            raise ValueError(f"{name}: expected shape [{x.shape[-1]}] as x's last dimension, got {list(tensor.shape)}")
        if tensor.device != x.device:
            raise ValueError(f"{name}: expected device {x.device} as x, got {tensor.device}")


def _is_transformed(*tensors: Tensor | None) -> bool:
    """Whether every step of a formula must be seen: in a transform of torch.func, or with forward-mode gradients."""
    unpack: Any = forward_ad.unpack_dual
    return torch._C._are_functorch_transforms_active() or any(
        each is not None and unpack(each).tangent is not None for each in tensors
    )


def _is_torchs(form: str, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> bool:
    """Whether torch serves both passes of this call, which C++ then knows. An export has the operator."""
    is_asked = torch.is_grad_enabled() and any(each is not None and each.requires_grad for each in (x, weight, bias))
    is_exported = torch.compiler._is_exporting_flag
    if not is_asked or is_exported or custom_ops.count_torchs_passes(form, x, weight, bias) < 2:
        return False
    if not torch.is_autocast_enabled(x.device.type):  # which C++ leaves to others
        custom_ops.remember_kernel(form, x, weight, bias, has_residual=False)
    return True


def _norm(form: str, x: Tensor, residual: Tensor | None, weight: Tensor | None, bias: Tensor | None, eps: float) -> Any:
    """The norm, and the sum if there is a residual, by the operator; who must look into it gets its formula."""
    is_transform, has_operator = False, form != "layernorm" or weight is not None
    if returns_float32(form, x) and torch.is_autocast_enabled("cuda"):
        x = x.float()
        residual, weight, bias = (None if each is None else each.float() for each in (residual, weight, bias))
    if _is_compiling():
        # Torch's compiler gets the formula: it joins the norm's loops with those around it. That gains more than a
        # kernel does, whose call it cannot look into. A program that is exported keeps the operator, as does float64 on
        # a GPU, where the Inductor of torch 2.11 fails. Up to torch 2.11, whoever compiles sees
        # torch.compiler.is_exporting() as true, so this reads what it returns.
        is_shown = not torch.compiler._is_exporting_flag and not (x.is_cuda and x.dtype == torch.float64)
    else:
        is_transform = _is_transformed(x, residual, weight, bias)
        is_shown = is_transform or (has_operator and residual is None and _is_torchs(form, x, weight, bias))
    if is_shown or not has_operator:
        return normalize(form, x, residual, weight, bias, eps, is_fusible=not is_transform)
    return custom_ops.run_operator(form, x, residual, weight, bias, eps)


def returns_float32(form: str, x: Tensor) -> bool:
    """Whether torch's own norm computes, and returns, float32 under autocast."""
    is_torchs = form == "layernorm" or (form == "torch" and _IS_RMS_NORM_AUTOCAST)
    return is_torchs and x.device.type == "cuda" and x.dtype != torch.float64


def default_eps(dtype: torch.dtype) -> float:
    """The eps that this version of torch takes where RMSNorm is given none."""
    return _DEFAULT_EPS.get(dtype, torch.finfo(torch.float32).eps)


# Torch 2.8 takes the epsilon of x's dtype, later versions that of the dtype in which they compute.
_TAKES_OWN_EPS = torch_functional.rms_norm(torch.full((1, 1), 2.0**-12, dtype=torch.float16), (1,)).item() < 0.1
_DEFAULT_EPS = {
    dtype: torch.finfo(dtype if _TAKES_OWN_EPS else compute_dtype(dtype)).eps
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64)
}
