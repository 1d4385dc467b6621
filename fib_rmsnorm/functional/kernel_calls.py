"""Choose the kernel of the registry that serves a call."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from torch import Tensor

from fib_rmsnorm.deployment.kernels import DEPLOYMENT, KernelChoice, NormCall
from fib_rmsnorm.deployment.winner_table import Shape
from fib_rmsnorm.functional.formulas import rounds_sum

KERNEL_DTYPES = ("float16", "bfloat16", "float32")
MOST_CHOICES = 4096
"""Calls of which a process remembers the kernel."""


_refusals: dict[NormCall, dict[str, str]] = {}
"""By call, why Solutions did not take it, by name."""


def pass_over(chosen: KernelChoice, reason: str) -> KernelChoice:
    """How to run the call by another kernel than one that refused it."""
    solution = chosen.kernel.solution if chosen.kernel else ""
    _refusals.setdefault(chosen.call, {})[solution] = reason
    _choose.cache_clear()
    return _choose(chosen.call)


def find_for(operator: str, x: Tensor, weight: Tensor) -> KernelChoice:
    """How to run an operator on rows like x's."""
    return _choose(NormCall(operator, _shape_of(x, weight), x.device))


def find_norm(
    form: str, x: Tensor, weight: Tensor | None, bias: Tensor | None, *, has_residual: bool
) -> tuple[KernelChoice, bool]:
    """How to run a call of a norm, and whether the kernel is that of the sum of x and the residual, added before it."""
    has_other_bias = bias is not None and weight is not None and bias.dtype != weight.dtype

    def find(*, residual: bool) -> KernelChoice:
        operator = name_operator(form, weight=weight is not None, bias=bias is not None, residual=residual)
        return _choose(NormCall(operator, _shape_of(x, weight), x.device, has_other_bias))

    chosen = find(residual=has_residual)
    if chosen.kernel is not None or not has_residual or not rounds_sum(form, x.dtype):
        return chosen, False
    of_sum = find(residual=False)  # the sum is all that the norm needs
    if of_sum.kernel is None:
        return chosen, False
    reasons = *chosen.passed_over, "so torch adds x and the residual before it", *of_sum.passed_over
    return replace(of_sum, passed_over=reasons), True


def _shape_of(x: Tensor, weight: Tensor | None) -> Shape:
    rows, hidden = x.numel() // max(x.shape[-1], 1), x.shape[-1]
    dtype, weight_dtype = (None if each is None else str(each.dtype).removeprefix("torch.") for each in (x, weight))
    return Shape(rows, hidden, dtype or "", weight_dtype)


def find_gradient(form: str, x: Tensor, weight: Tensor | None, *, has_residual: bool) -> KernelChoice | None:
    """How to run the gradients; None if no operator of the registry computes them, or if x is empty."""
    operator = name_gradient_operator(form, residual=has_residual)
    return None if operator is None or weight is None or not x.numel() else find_for(operator, x, weight)


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


def forget_choices() -> None:
    """Choose every kernel again, as after a change of the registry."""
    _refusals.clear()
    _choose.cache_clear()


@lru_cache(MOST_CHOICES)
def _choose(call: NormCall) -> KernelChoice:
    why = ""
    if call.operator is None:
        why = "no operator of the registry computes this"
    elif call.shape.dtype not in KERNEL_DTYPES:
        why = f"no kernel takes {call.shape.dtype}"
    elif call.has_other_bias:
        why = "no kernel takes a bias of another dtype than the weight's"
    if why:
        return KernelChoice(call, None, None, (why,))
    return DEPLOYMENT.choose(call, _refusals.get(call))
