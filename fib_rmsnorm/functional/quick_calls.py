"""What serves a call whose shape was met before, found by one look-up: in C++, or in Python if that does not compile.

In Python an entry is the kernel itself where x has two dimensions and the kernel checks its tensors. What an entry
refuses, it refuses by an exception; `norms` then takes the long way, which says what is wrong or copes with it.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from fib_rmsnorm.deployment.native_calls import load_native_calls
from fib_rmsnorm.functional.forms import CONVENTIONS, FORMS
from fib_rmsnorm.functional.formulas import Gradients, rounds_sum
from fib_rmsnorm.functional.gradient_calls import TWICE, find_gradient, run_norm_backward
from fib_rmsnorm.functional.kernel_calls import MOST_CHOICES, ChosenKernel, find_chosen, run_add_norm, run_norm

Key = tuple[str, torch.Size, torch.dtype, int]
QUICK: dict[Key, Callable[..., Any]] = {}
"""By convention or `layernorm`, x's shape and dtype, and its device's index."""

native_run: Callable[..., Any] | None = None
"""The norm by convention, x, residual, weight, bias and eps, or None for a call that it does not serve; None without
C++."""

_CONVENTION_OF = {form: convention for convention, form in CONVENTIONS.items()} | {"layernorm": "layernorm"}
_BIAS, _RESIDUAL, _IS_GRADIENT = 1, 2, 4
"""What C++ calls Extra."""
_native: ModuleType | None = None


def run_and_remember(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, form: str) -> Tensor:
    """The norm; for further calls like this one its kernel is remembered."""
    remember(form, x, None, weight, bias)
    return run_norm(form, x, weight, bias, eps)


def run_and_remember_add(
    x: Tensor, residual: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, form: str
) -> tuple[Tensor, Tensor]:
    """The norm of x + residual and the sum; for further calls like this one their kernel is remembered."""
    remember(form, x, residual, weight, bias)
    return run_add_norm(form, x, residual, weight, bias, eps)


def run_and_remember_backward(
    dy: Tensor, dnew_residual: Tensor | None, x: Tensor, weight: Tensor | None, has_bias: bool, eps: float, form: str
) -> Gradients:
    """The gradients; for further calls like this one their kernel is remembered."""
    if weight is not None and x.numel():
        chosen = find_gradient(form, x, weight, has_residual=dnew_residual is not None)
        native = None if chosen is None or chosen.entry is None else _connect()
        if chosen is not None and native is not None:
            _remember_natively(native, form, x, weight, chosen, _IS_GRADIENT | _RESIDUAL * (dnew_residual is not None))
    return run_norm_backward(form, dy, dnew_residual, x, weight, has_bias=has_bias, eps=eps)


def remember(form: str, x: Tensor, residual: Tensor | None, weight: Tensor | None, bias: Tensor | None) -> None:
    """Remember the kernel for calls like this one, where functions look for one."""
    if x.numel() == 0 or form not in FORMS:
        return
    chosen = find_chosen(form, x, weight, bias, residual)
    adds_before = chosen.entry is None and residual is not None and rounds_sum(form, x.dtype)
    if adds_before:
        chosen = find_chosen(form, x, weight, bias, None)
    native = None if chosen.entry is None else _connect()
    if native is not None:
        extra = _BIAS * (bias is not None) | _RESIDUAL * (residual is not None)
        _remember_natively(native, form, x, weight, chosen, extra, adds_before=adds_before)
    elif residual is None and weight is not None and (bias is not None) == (form == "layernorm"):
        _remember_in_python(form, x, weight, chosen)


def forget_quick_calls() -> None:
    """Forget all kernels, as after a change of the registry."""
    QUICK.clear()
    if _native is not None:
        _native.forget()


def _remember_natively(
    native: ModuleType,
    form: str,
    x: Tensor,
    weight: Tensor | None,
    chosen: ChosenKernel,
    extra: int,
    *,
    adds_before: bool = False,
) -> None:
    entry = chosen.entry
    if entry is None:
        return
    hidden, weight_dtype = x.shape[-1], None if weight is None else weight.dtype
    handle = entry.__chandle__() if hasattr(entry, "__chandle__") else 0
    call = _CONVENTION_OF[form], x.numel() // hidden, hidden, x.dtype, weight_dtype, x.get_device(), extra
    if native.remember(*call, entry, handle, adds_before) > MOST_CHOICES:
        native.forget()


def _remember_in_python(form: str, x: Tensor, weight: Tensor, chosen: ChosenKernel) -> None:
    kernel = chosen.choice.kernel
    if chosen.entry is None or kernel is None:
        return
    entry = chosen.entry if kernel.is_native else _checked(chosen.entry, weight.dtype)
    if len(QUICK) >= MOST_CHOICES:
        QUICK.clear()
    flat = entry if x.dim() == 2 else _flattened(entry, x.shape[-1])
    QUICK[_CONVENTION_OF[form], x.shape, x.dtype, x.get_device()] = flat


def _connect() -> ModuleType | None:
    global _native, native_run
    if _native is None and not isinstance(module := load_native_calls(), str):
        current_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)
        names = tuple(_CONVENTION_OF.values()), tuple(_CONVENTION_OF)
        asked = run_and_remember, run_and_remember_add, run_and_remember_backward
        module.connect(*names, TWICE, *asked, current_stream)
        _native, native_run = module, module.run
    return _native


def _checked(entry: Callable[..., Any], dtype: torch.dtype) -> Callable[..., Any]:
    """A kernel in Python takes any memory for a weight."""

    def run(x: Tensor, *others: Any) -> None:
        for each in others[:-2]:
            if each.shape != x.shape[-1:] or each.device != x.device or each.dtype != dtype or not each.is_contiguous():
                raise ValueError("not a parameter for x")
        entry(x, *others)

    return run


def _flattened(entry: Callable[..., Any], hidden: int) -> Callable[..., Any]:
    def run(x: Tensor, *others: Any) -> None:
        entry(x.view(-1, hidden), *others[:-1], others[-1].view(-1, hidden))

    return run
