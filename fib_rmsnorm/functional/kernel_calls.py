"""Choose the kernel of the registry that serves a call."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from fib_rmsnorm.deployment.kernels import KernelChoice, NormCall, serving
from fib_rmsnorm.deployment.winner_table import Shape
from fib_rmsnorm.functional.formulas import rounds_sum


def find_kernel(
    form: str,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None = None,
    *,
    has_residual: bool = False,
    is_gradient: bool = False,
) -> tuple[KernelChoice, bool]:
    """How to run a norm or its gradients, and whether the kernel is that of the sum of x and the residual."""
    dtype, weight_dtype = (None if each is None else str(each.dtype).removeprefix("torch.") for each in (x, weight))
    shape = Shape(x.numel() // max(x.shape[-1], 1), x.shape[-1], dtype or "", weight_dtype)
    has_other_bias = bias is not None and weight is not None and bias.dtype != weight.dtype

    def find(*, residual: bool) -> KernelChoice:
        if is_gradient:
            operator = None if weight is None else name_gradient_operator(form, residual=residual)
        else:
            operator = name_operator(form, weight=weight is not None, bias=bias is not None, residual=residual)
        return serving().choose(NormCall(operator, shape, x.device, has_other_bias))

    chosen = find(residual=has_residual)
    if chosen.kernel is not None or is_gradient or not has_residual or not rounds_sum(form, x.dtype):
        return chosen, False
    of_sum = find(residual=False)  # the sum is all that the norm needs
    if of_sum.kernel is None:
        return chosen, False
    reasons = *chosen.passed_over, "so torch adds x and the residual before it", *of_sum.passed_over
    return replace(of_sum, passed_over=reasons), True


def name_operator(form: str, *, weight: bool, bias: bool = False, residual: bool = False) -> str | None:
    """The registry's operator that computes a form of these tensors; None if it has none.

    Every operator takes x, the residual, the weight, the bias and eps, in this order, of which it leaves out what it
    does not have, and writes to out and new_residual.
    """
    if not weight:
        # Without a weight all conventions round once.
        return "rmsnorm_no_weight" if form != "layernorm" and not (bias or residual) else None
    operator = {"torch": "rmsnorm", "layernorm": "layernorm"}.get(form, f"rmsnorm_{form}")
    if bias:
        return f"{operator}_bias" if form in ("torch", "layernorm") and not residual else None
    if residual:
        return f"fused_add_{operator}" if form != "layernorm" else None
    return operator


def name_gradient_operator(form: str, *, residual: bool) -> str | None:
    """The registry's operator for the gradients of a form with a weight; None if it has none.

    Of Llama's convention it has the gradients as if nothing were rounded on the way. Gemma's would need 1 + weight in
    x's dtype, and so rounded.
    """
    if form in ("torch", "llama"):
        return "fused_add_rmsnorm_backward" if residual else "rmsnorm_backward"
    return "layernorm_backward" if form == "layernorm" and not residual else None
