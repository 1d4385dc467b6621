"""Choose the kernel of the registry that serves a call."""

from __future__ import annotations

from dataclasses import replace
from enum import IntEnum

import torch
from torch import Tensor

from fib_rmsnorm.deployment.kernels import KernelChoice, NormCall, serving
from fib_rmsnorm.deployment.winner_table import Shape
from fib_rmsnorm.functional.formulas import is_torchs, rounds_sum

OPERATORS = {
    # Without a weight all conventions round once.
    **{(form, ""): "rmsnorm_no_weight" for form in ("torch", "llama", "gemma")},
    ("torch", "weight"): "rmsnorm",
    ("torch", "weight, bias"): "rmsnorm_bias",
    ("torch", "residual, weight"): "fused_add_rmsnorm",
    ("llama", "weight"): "rmsnorm_llama",
    ("llama", "residual, weight"): "fused_add_rmsnorm_llama",
    ("gemma", "weight"): "rmsnorm_gemma",
    ("gemma", "residual, weight"): "fused_add_rmsnorm_gemma",
    ("layernorm", "weight"): "layernorm",
    ("layernorm", "weight, bias"): "layernorm_bias",
    # Llama's gradients are as if nothing were rounded on the way. Gemma's would need 1 + weight, and so rounded.
    **{(form, "weight, gradient"): "rmsnorm_backward" for form in ("torch", "llama")},
    **{(form, "residual, weight, gradient"): "fused_add_rmsnorm_backward" for form in ("torch", "llama")},
    ("layernorm", "weight, gradient"): "layernorm_backward",
}
"""The registry's operator for a form, by what a call of it has beside x and eps, or that its gradients are wanted.

Each takes x, the residual, the weight, the bias and eps, in this order, of which it leaves out what it does not have,
and writes to out and new_residual.
"""

MOST_OF_TORCH = 1 << 24
"""Elements: up to 4096 rows of 4096, both passes take an H100's host longer than the GPU."""


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
        has = {"residual": residual, "weight": weight is not None, "bias": bias is not None, "gradient": is_gradient}
        operator = OPERATORS.get((form, ", ".join(part for part, is_given in has.items() if is_given)))
        return serving().choose(NormCall(operator, shape, x.device, has_other_bias))

    chosen = find(residual=has_residual)
    if chosen.kernel is not None or is_gradient or not has_residual or not rounds_sum(form, x.dtype):
        return chosen, False
    of_sum = find(residual=False)  # the sum is all that the norm needs
    if of_sum.kernel is None:
        return chosen, False
    reasons = *chosen.passed_over, "so torch adds x and the residual before it", *of_sum.passed_over
    return replace(of_sum, passed_over=reasons), True


class Trainer(IntEnum):
    """Who computes a norm whose gradients are wanted."""

    KERNELS = 0
    TORCH_FORWARD = 1
    """Torch's norm, which gives each row's statistics to the registry's kernel of the gradients."""
    TORCH = 2


def find_trainer(form: str, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Trainer:
    """Who serves where gradients are wanted.

    On a GPU, if torch's kernels round alike: for few elements torch, because the host sets the pace, and a node of ours
    costs it more; for many its norm, because without its statistics the backward pass has to read x once more.
    """
    has_kernel = form == "layernorm" or hasattr(torch.ops.aten, "_fused_rms_norm")
    if not x.is_cuda or not has_kernel or not is_torchs(form, x, weight, bias):
        return Trainer.KERNELS
    return Trainer.TORCH if weight is None or x.numel() <= MOST_OF_TORCH else Trainer.TORCH_FORWARD
