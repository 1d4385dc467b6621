"""Ask which kernel serves a call, and choose the registry that serves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from torch import Tensor

from fib_rmsnorm.deployment.choice import DEPLOYMENT, KernelChoice
from fib_rmsnorm.functional.forms import find_form
from fib_rmsnorm.functional.formulas import rounds_sum
from fib_rmsnorm.functional.kernel_calls import find_chosen, forget_choices
from fib_rmsnorm.functional.quick_calls import forget_quick_calls


def why(
    x: Tensor,
    weight: Tensor | None = None,
    *,
    bias: Tensor | None = None,
    residual: Tensor | None = None,
    convention: str = "torch",
) -> KernelChoice:
    """Which kernel `rms_norm` takes for these tensors, by which Trace, and why no other; "layernorm" for `layer_norm`.

    Print it, or read its `kernel`, `trace` and `passed_over`. A kernel that is not built yet is built.
    """
    form = convention if convention == "layernorm" else find_form(convention)
    choice = find_chosen(form, x, weight, bias, residual).choice
    if choice.kernel is None and residual is not None and rounds_sum(form, x.dtype):
        of_sum = find_chosen(form, x, weight, bias, None).choice
        if of_sum.kernel is not None:
            reasons = *choice.passed_over, "so torch adds x and the residual before it", *of_sum.passed_over
            return replace(of_sum, passed_over=reasons)
    return choice


def use_registry(root: str | Path | None) -> None:
    """Take the kernels from another registry, where `fib-rmsnorm deploy` has run; None: from the one that is shipped.

    Its Solutions run in this process, with all that it may do: name only a registry whose sources you trust.
    """
    DEPLOYMENT.use(None if root is None else Path(root))
    forget_choices()
    forget_quick_calls()
