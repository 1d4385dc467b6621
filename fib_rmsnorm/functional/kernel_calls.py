"""Run a norm by the registry's kernel for it, or by torch where none serves."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fib_rmsnorm.deployment.choice import DEPLOYMENT, KernelChoice
from fib_rmsnorm.deployment.kernels import BuiltKernel, on_device
from fib_rmsnorm.deployment.winner_table import Shape
from fib_rmsnorm.functional import formulas
from fib_rmsnorm.functional.forms import name_operator

KERNEL_DTYPES = (torch.float16, torch.bfloat16, torch.float32)
MOST_CHOICES = 4096
"""Calls of which a process remembers the kernel. One that meets more forgets all and asks again."""


class NormCall(NamedTuple):
    """What decides which kernel serves."""

    form: str
    rows: int
    hidden: int
    dtype: torch.dtype
    device: torch.device
    weight_dtype: torch.dtype | None
    has_bias: bool
    has_residual: bool


class ChosenKernel(NamedTuple):
    """How to run a call."""

    choice: KernelChoice
    entry: Callable[..., Any] | None
    """None: torch serves."""


_chosen: dict[NormCall, ChosenKernel] = {}
_lock = Lock()


def run_norm(form: str, x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    """The norm over the last dimension of x: any leading dimensions, strides and alignment."""
    entry = find_entry(form, x, weight, bias, None) if x.numel() else None
    if entry is None:
        return formulas.normalize(form, x, weight, bias, eps)
    rows = rows_of(x)
    out = torch.empty_like(rows)
    entry(rows, *_parameters(weight, bias), eps, out)
    return out.view(x.shape)


def run_add_norm(
    form: str, x: Tensor, residual: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor]:
    """The norm of x + residual, and the sum."""
    entry = find_entry(form, x, weight, bias, residual) if x.numel() else None
    if entry is None:
        if formulas.rounds_sum(form, x.dtype):  # then the sum is all that the norm needs
            total = x + residual
            return run_norm(form, total, weight, bias, eps), total
        return formulas.add_and_normalize(form, x, residual, weight, bias, eps)
    rows = rows_of(x)
    out, new_residual = torch.empty_like(rows), torch.empty_like(rows)
    entry(rows, rows_of(residual), *_parameters(weight, bias), eps, out, new_residual)
    return out.view(x.shape), new_residual.view(x.shape)


def find_entry(
    form: str, x: Tensor, weight: Tensor | None, bias: Tensor | None, residual: Tensor | None
) -> Callable[..., Any] | None:
    """The kernel for a call; None if torch serves."""
    return find_chosen(form, x, weight, bias, residual).entry


def find_for(operator: str, x: Tensor, weight: Tensor) -> ChosenKernel:
    """How to run another operator on rows like x's, from memory too."""
    rows, hidden = x.numel() // x.shape[-1], x.shape[-1]
    return _look_up(NormCall(operator, rows, hidden, x.dtype, x.device, weight.dtype, False, False), operator)


def find_chosen(
    form: str, x: Tensor, weight: Tensor | None, bias: Tensor | None, residual: Tensor | None
) -> ChosenKernel:
    """How to run a call, from memory if its shape was met before."""
    hidden = x.shape[-1]
    rows = x.numel() // max(hidden, 1)
    weight_dtype = None if weight is None else weight.dtype
    call = NormCall(form, rows, hidden, x.dtype, x.device, weight_dtype, bias is not None, residual is not None)
    return _look_up(call, None)


def _look_up(call: NormCall, operator: str | None) -> ChosenKernel:
    found = _chosen.get(call)
    if found is None:
        found = _choose(call, operator)
        with _lock:
            if len(_chosen) >= MOST_CHOICES:
                _chosen.clear()
            _chosen[call] = found
    return found


def rows_of(x: Tensor) -> Tensor:
    """x with two dimensions, contiguous: itself if it is that already."""
    return x.contiguous().view(-1, x.shape[-1])


def forget_choices() -> None:
    """Choose every kernel again, as after a change of the registry."""
    with _lock:
        _chosen.clear()


def _choose(call: NormCall, operator: str | None) -> ChosenKernel:
    weight_dtype = None if call.weight_dtype is None else _name(call.weight_dtype)
    shape = Shape(call.rows, call.hidden, _name(call.dtype), weight_dtype)
    if operator is None:
        has_weight = weight_dtype is not None
        operator = name_operator(call.form, weight=has_weight, bias=call.has_bias, residual=call.has_residual)
    if operator is None or call.dtype not in KERNEL_DTYPES:
        why = "no operator of the registry computes this" if operator is None else f"no kernel takes {shape.dtype}"
        return ChosenKernel(KernelChoice(operator, shape, call.device.type, None, None, (why,)), None)
    choice = DEPLOYMENT.choose(operator, shape, call.device)
    return ChosenKernel(choice, None if choice.kernel is None else _guard(choice.kernel, call.device))


def _guard(kernel: BuiltKernel, device: torch.device) -> Callable[..., Any]:
    """The entry point; where there are several GPUs and it launches on the current one, with x's as that."""
    if kernel.is_native or device.type != "cuda" or torch.cuda.device_count() == 1:
        return kernel.entry

    def run(*arguments: Any) -> None:
        with on_device(device):
            kernel.entry(*arguments)

    return run


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _parameters(weight: Tensor | None, bias: Tensor | None) -> list[Tensor]:
    return [each.contiguous() for each in (weight, bias) if each is not None]
