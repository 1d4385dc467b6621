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
from fib_rmsnorm.functional.forms import CONVENTIONS
from fib_rmsnorm.functional.gradient_calls import differentiate_quickly
from fib_rmsnorm.functional.kernel_calls import MOST_CHOICES, find_chosen, run_norm

Key = tuple[str, torch.Size, torch.dtype, int]
QUICK: dict[Key, Callable[..., Any]] = {}
"""By convention or `layernorm`, x's shape and dtype, and its device's index."""

native_run: Callable[..., Tensor | None] | None = None
"""The norm by convention, x, weight, bias and eps, or None for a call that it does not serve; None without C++."""

_CONVENTION_OF = {form: convention for convention, form in CONVENTIONS.items()} | {"layernorm": "layernorm"}
_native: ModuleType | None = None


def run_and_remember(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, form: str) -> Tensor:
    """The norm; for further calls like this one its kernel is remembered."""
    remember(form, x, weight, bias)
    return run_norm(form, x, weight, bias, eps)


def remember(form: str, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> None:
    """Remember the kernel for calls like this one, where functions look for one."""
    if weight is None or (bias is None) == (form == "layernorm") or x.numel() == 0:
        return
    chosen = find_chosen(form, x, weight, bias, None)
    kernel = chosen.choice.kernel
    if chosen.entry is None or kernel is None:
        return
    entry = chosen.entry if kernel.is_native else _checked(chosen.entry, weight.dtype)
    convention, hidden = _CONVENTION_OF[form], x.shape[-1]
    native = _connect()
    if native is not None:
        handle = entry.__chandle__() if hasattr(entry, "__chandle__") else 0
        call = convention, x.numel() // hidden, hidden, x.dtype, weight.dtype, x.get_device()
        if native.remember(*call, entry, handle) > MOST_CHOICES:
            native.forget()
        return
    if len(QUICK) >= MOST_CHOICES:
        QUICK.clear()
    QUICK[convention, x.shape, x.dtype, x.get_device()] = entry if x.dim() == 2 else _flattened(entry, hidden)


def forget_quick_calls() -> None:
    """Forget all kernels, as after a change of the registry."""
    QUICK.clear()
    if _native is not None:
        _native.forget()


def _connect() -> ModuleType | None:
    global _native, native_run
    if _native is None and not isinstance(module := load_native_calls(), str):
        current_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)
        names = tuple(_CONVENTION_OF.values()), tuple(_CONVENTION_OF)
        module.connect(*names, differentiate_quickly, run_and_remember, current_stream)
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
