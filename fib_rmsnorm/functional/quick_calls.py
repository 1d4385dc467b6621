"""What serves a call whose shape was met before, found by one look-up.

An entry is the kernel itself where x has two dimensions and the kernel checks its tensors. What an entry refuses, it
refuses by an exception; `norms` then takes the long way, which says what is wrong or copes with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from fib_rmsnorm.functional.forms import CONVENTIONS
from fib_rmsnorm.functional.kernel_calls import MOST_CHOICES, find_chosen

Key = tuple[str, torch.Size, torch.dtype, int]
QUICK: dict[Key, Callable[..., Any]] = {}
"""By convention or `layernorm`, x's shape and dtype, and its device's index."""

_CONVENTION_OF = {form: convention for convention, form in CONVENTIONS.items()} | {"layernorm": "layernorm"}


def remember(form: str, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> None:
    """Remember the kernel for calls like this one, where functions look for one."""
    if weight is None or (bias is None) == (form == "layernorm") or x.numel() == 0:
        return
    chosen = find_chosen(form, x, weight, bias, None)
    kernel = chosen.choice.kernel
    if chosen.entry is None or kernel is None:
        return
    entry = chosen.entry
    if not kernel.is_native:
        entry = _checked(entry, weight.dtype)
    if x.dim() != 2:
        entry = _flattened(entry, x.shape[-1])
    if len(QUICK) >= MOST_CHOICES:
        QUICK.clear()
    QUICK[_CONVENTION_OF[form], x.shape, x.dtype, x.get_device()] = entry


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
