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
    bias_dtype: torch.dtype | None
    has_residual: bool
    operator: str | None


class ChosenKernel(NamedTuple):
    """How to run a call."""

    call: NormCall
    refusals: dict[str, str]
    """Why Solutions did not take the call, by name."""
    choice: KernelChoice
    entry: Callable[..., Any] | None
    """None: torch serves."""


_chosen: dict[NormCall, ChosenKernel] = {}
_lock = Lock()


def run_norm(form: str, x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    """The norm over the last dimension of x: any leading dimensions, strides and alignment."""
    chosen = find_chosen(form, x, weight, bias, None)
    if chosen.entry is not None and x.numel():
        rows = rows_of(x)
        out = torch.empty_like(rows)
        if run_kernel(chosen, rows, *_parameters(weight, bias), eps, out):
            return out.view(x.shape)
    return formulas.normalize_fusibly(form, x, weight, bias, eps)


def run_add_norm(
    form: str, x: Tensor, residual: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor]:
    """The norm of x + residual, and the sum."""
    chosen = find_chosen(form, x, weight, bias, residual)
    if chosen.entry is not None and x.numel():
        rows = rows_of(x)
        out, new_residual = torch.empty_like(rows), torch.empty_like(rows)
        if run_kernel(chosen, rows, rows_of(residual), *_parameters(weight, bias), eps, out, new_residual):
            return out.view(x.shape), new_residual.view(x.shape)
    if formulas.rounds_sum(form, x.dtype):  # then the sum is all that the norm needs
        total = x + residual
        return run_norm(form, total, weight, bias, eps), total
    return formulas.add_and_normalize(form, x, residual, weight, bias, eps)


def run_kernel(chosen: ChosenKernel, *arguments: Any) -> bool:
    """Run the first kernel that takes the call; False if none does. One that refuses is not asked again."""
    if chosen.entry is None:
        return False
    try:
        chosen.entry(*arguments)
    except (ValueError, TypeError, NotImplementedError) as error:
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        return run_kernel(pass_over(chosen, reason), *arguments)
    return True


def pass_over(chosen: ChosenKernel, reason: str) -> ChosenKernel:
    """How to run the call by another kernel than one that refused it."""
    solution = chosen.choice.kernel.solution if chosen.choice.kernel else ""
    return _keep(_choose(chosen.call, {**chosen.refusals, solution: reason}))


def find_for(operator: str, x: Tensor, weight: Tensor) -> ChosenKernel:
    """How to run another operator on rows like x's, from memory too."""
    rows, hidden = x.numel() // x.shape[-1], x.shape[-1]
    return _look_up(NormCall(operator, rows, hidden, x.dtype, x.device, weight.dtype, None, False, operator))


def find_chosen(
    form: str, x: Tensor, weight: Tensor | None, bias: Tensor | None, residual: Tensor | None
) -> ChosenKernel:
    """How to run a call, from memory if its shape was met before."""
    hidden = x.shape[-1]
    rows = x.numel() // max(hidden, 1)
    weight_dtype = None if weight is None else weight.dtype
    bias_dtype = None if bias is None else bias.dtype
    operator = name_operator(form, weight=weight is not None, bias=bias is not None, residual=residual is not None)
    return _look_up(
        NormCall(form, rows, hidden, x.dtype, x.device, weight_dtype, bias_dtype, residual is not None, operator)
    )


def find_gradient(form: str, x: Tensor, weight: Tensor | None, *, has_residual: bool) -> ChosenKernel | None:
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
    if bias:
        return f"{form}_bias" if form in ("rmsnorm", "layernorm") and not residual else None
    if residual:
        return f"fused_add_{form}" if form != "layernorm" else None
    return form


def name_gradient_operator(form: str, *, residual: bool) -> str | None:
    """The registry's operator for the gradients of a form with a weight; None if it has none.

    Of Llama's convention it has the gradients as if nothing were rounded on the way. Gemma's would need 1 + weight in
    x's dtype, and so rounded.
    """
    if form in ("rmsnorm", "rmsnorm_llama"):
        return "fused_add_rmsnorm_backward" if residual else "rmsnorm_backward"
    return "layernorm_backward" if form == "layernorm" and not residual else None


def _look_up(call: NormCall) -> ChosenKernel:
    return _chosen.get(call) or _keep(_choose(call, {}))


def _keep(chosen: ChosenKernel) -> ChosenKernel:
    with _lock:
        if len(_chosen) >= MOST_CHOICES:
            _chosen.clear()
        _chosen[chosen.call] = chosen
    return chosen


def rows_of(x: Tensor) -> Tensor:
    """x with two dimensions, contiguous and in its memory as it is: itself if it is that already."""
    return x.contiguous().resolve_neg().view(-1, x.shape[-1])


def forget_choices() -> None:
    """Choose every kernel again, as after a change of the registry."""
    with _lock:
        _chosen.clear()


def _choose(call: NormCall, refusals: dict[str, str]) -> ChosenKernel:
    weight_dtype = None if call.weight_dtype is None else _name(call.weight_dtype)
    shape = Shape(call.rows, call.hidden, _name(call.dtype), weight_dtype)
    if why := _why_torch(call):
        return ChosenKernel(
            call, refusals, KernelChoice(call.operator, shape, call.device.type, None, None, (why,)), None
        )
    choice = DEPLOYMENT.choose(call.operator or "", shape, call.device, refusals)
    entry = None if choice.kernel is None else _guard(choice.kernel, call.device)
    return ChosenKernel(call, refusals, choice, entry)


def _why_torch(call: NormCall) -> str | None:
    """Why no kernel can serve, whichever there are; None if one may."""
    if call.operator is None:
        return "no operator of the registry computes this"
    if call.dtype not in KERNEL_DTYPES:
        return f"no kernel takes {_name(call.dtype)}"
    if call.bias_dtype not in (None, call.weight_dtype):
        return "no kernel takes a bias of another dtype than the weight's"
    return None


def _guard(kernel: BuiltKernel, device: torch.device) -> Callable[..., Any]:
    """The entry point. One in Python launches on the current device, and may need addresses of whole vectors."""
    if kernel.is_native or device.type != "cuda":
        return kernel.entry

    def run(*arguments: Any) -> None:
        aligned = [each.clone() if _is_misaligned(each) else each for each in arguments]
        if device.index == torch.cuda.current_device():
            kernel.entry(*aligned)
            return
        with on_device(device):
            kernel.entry(*aligned)

    return run


def _is_misaligned(argument: Any) -> bool:
    """Whether it is a tensor that vectors of 16 bytes cannot address: never an output, whose memory is its own."""
    return isinstance(argument, Tensor) and argument.data_ptr() % 16 != 0


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _parameters(weight: Tensor | None, bias: Tensor | None) -> list[Tensor]:
    return [each.contiguous().resolve_neg() for each in (weight, bias) if each is not None]
