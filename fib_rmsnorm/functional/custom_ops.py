"""The norms as operators of torch (`torch.ops.fib_rmsnorm`): for autograd, modes, compilers and exporters.

A norm has two routes. C++ (`deployment/quick_norms.cpp`) calls the registry's kernel, which Python finds and has C++
remember: calls like that one it serves alone, by `quick_norm` without torch's dispatcher, and by the same operators.
Where no kernel serves, or C++ does not compile, torch computes the formula.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from fib_rmsnorm.deployment.kernels import load_native_calls
from fib_rmsnorm.functional import formulas
from fib_rmsnorm.functional.formulas import CONVENTIONS, FORMS, Gradients, compute_dtype, differentiate, rounds_sum
from fib_rmsnorm.functional.kernel_calls import MOST_CHOICES, ChosenKernel, find_chosen, find_gradient, pass_over

TWICE = (
    "fib_rmsnorm: the gradient of a norm cannot be differentiated again; for double backward use "
    "torch.nn.functional.rms_norm or layer_norm"
)
CONVENTION_OF = {form: convention for convention, form in CONVENTIONS.items()} | {"layernorm": "layernorm"}
_BIAS, _RESIDUAL, _IS_GRADIENT = 1, 2, 4
"""What C++ calls Extra."""
_native: ModuleType | None = None


def _know_nothing(*_call: Any) -> None:
    """Leave every call to the operators, as long as there is no C++."""


quick_norm: Callable[..., Any] = _know_nothing
"""The norm by convention (or "layernorm"), x, residual, weight, bias and eps; None for a call that it does not serve.

What more than autograd must see, it leaves to the operators.
"""


def run_and_remember(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, form: str) -> Tensor:
    """The norm over the last dimension of x: any leading dimensions, strides and alignment."""
    found: Tensor | None = _run_by_kernel(x, None, weight, bias, eps, form)
    return formulas.normalize_fusibly(form, x, weight, bias, eps) if found is None else found


def run_and_remember_add(
    x: Tensor, residual: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, form: str
) -> tuple[Tensor, Tensor]:
    """The norm of x + residual, and the sum."""
    found: tuple[Tensor, Tensor] | None = _run_by_kernel(x, residual, weight, bias, eps, form)
    return formulas.add_and_normalize_fusibly(form, x, residual, weight, bias, eps) if found is None else found


def run_and_remember_backward(
    dy: Tensor, dnew_residual: Tensor | None, x: Tensor, weight: Tensor | None, has_bias: bool, eps: float, form: str
) -> Gradients:
    """The gradients of x, the weight and the bias; x is the new residual if a residual was added.

    C++ calls the kernel. Where none serves, or C++ does not compile, torch computes them.
    """
    extra = _IS_GRADIENT | _RESIDUAL * (dnew_residual is not None)
    chosen = find_gradient(form, x, weight, has_residual=dnew_residual is not None)
    while chosen is not None and (native := _remember(form, x, weight, chosen, extra)) is not None:
        found = native.differentiate(CONVENTION_OF[form], dy, dnew_residual, x, weight, has_bias, eps)
        if found is not None:
            return Gradients(*found)
        chosen = pass_over(chosen, "refused the call")
    return differentiate(form, dy, dnew_residual, x, weight, has_bias=has_bias, eps=eps)


def forget_quick_calls() -> None:
    """Forget all kernels, as after a change of the registry."""
    if _native is not None:
        _native.forget()


def _run_by_kernel(
    x: Tensor, residual: Tensor | None, weight: Tensor | None, bias: Tensor | None, eps: float, form: str
) -> Any:
    """What C++ returns for the call; None if torch is to serve. Further calls like this one it serves alone."""
    if x.numel() == 0 or form not in FORMS:
        return None
    chosen = find_chosen(form, x, weight, bias, residual)
    adds_before = chosen.entry is None and residual is not None and rounds_sum(form, x.dtype)
    if adds_before:  # the sum is all that the norm needs
        chosen = find_chosen(form, x, weight, bias, None)
    extra = _BIAS * (bias is not None) | _RESIDUAL * (residual is not None)
    while (native := _remember(form, x, weight, chosen, extra, adds_before=adds_before)) is not None:
        tensors = (None if each is None else each.contiguous().resolve_neg() for each in (x, residual, weight, bias))
        found = native.normalize(CONVENTION_OF[form], *tensors, eps)
        if found is not None:
            return found
        chosen = pass_over(chosen, "refused the call")
    return None


def _remember(
    form: str, x: Tensor, weight: Tensor | None, chosen: ChosenKernel, extra: int, *, adds_before: bool = False
) -> ModuleType | None:
    """Have C++ know the kernel of calls like this one; returns C++, or None if it or a kernel is missing."""
    entry = chosen.entry
    if entry is None or (native := _connect()) is None:
        return None
    hidden, weight_dtype = x.shape[-1], None if weight is None else weight.dtype
    handle = entry.__chandle__() if hasattr(entry, "__chandle__") else 0
    call = CONVENTION_OF[form], x.numel() // hidden, hidden, x.dtype, weight_dtype, x.get_device(), extra
    if native.remember(*call, entry, handle, adds_before) > MOST_CHOICES:
        native.forget()
        native.remember(*call, entry, handle, adds_before)
    return native


def _connect() -> ModuleType | None:
    global _native, quick_norm
    if _native is None and not isinstance(module := load_native_calls(), str):
        current_stream = torch._C._cuda_getCurrentRawStream if torch.version.cuda else None
        names = tuple(CONVENTION_OF.values()), tuple(CONVENTION_OF)
        asked = run_and_remember, run_and_remember_add, run_and_remember_backward
        module.connect(*names, TWICE, *asked, current_stream)
        _native, quick_norm = module, module.run
    return _native


# torch.library has no types: it is Any here.
_torch_library: Any = torch.library
_library = _torch_library.Library("fib_rmsnorm", "DEF")
_library.define("norm(Tensor x, Tensor? weight, Tensor? bias, float eps, str form) -> Tensor")
_library.define(
    "add_norm(Tensor x, Tensor residual, Tensor? weight, Tensor? bias, float eps, str form) -> (Tensor, Tensor)"
)
_library.define(
    "norm_backward(Tensor dy, Tensor? dnew_residual, Tensor x, Tensor? weight, bool has_bias, float eps, str form)"
    " -> (Tensor, Tensor, Tensor)"
)

norm = torch.ops.fib_rmsnorm.norm
add_norm = torch.ops.fib_rmsnorm.add_norm
norm_backward = torch.ops.fib_rmsnorm.norm_backward


def _fake_norm(x: Tensor, *_: Any) -> Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _fake_add_norm(x: Tensor, residual: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return _fake_norm(x), _fake_norm(residual)


def _fake_norm_backward(
    dy: Tensor, dnew_residual: Tensor | None, x: Tensor, weight: Tensor | None, has_bias: bool, eps: float, form: str
) -> tuple[Tensor, Tensor, Tensor]:
    nothing = x.new_empty(0)
    dtype = compute_dtype(x.dtype) if weight is None else weight.dtype
    return (
        torch.empty_like(x, memory_format=torch.contiguous_format),
        nothing if weight is None else torch.empty_like(weight),
        x.new_empty(x.shape[-1], dtype=dtype) if has_bias else x.new_empty(0),
    )


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor | tuple[Tensor, Tensor]) -> None:
    x, *_, weight, bias, ctx.eps, ctx.form = inputs
    ctx.save_for_backward(x if isinstance(output, Tensor) else output[1], weight)
    ctx.bias_dtype = None if bias is None else bias.dtype


def _differentiate(ctx: Any, dy: Tensor, dnew_residual: Tensor | None = None) -> tuple[Any, ...]:
    """The gradients of the operator's arguments: of x, perhaps of the residual, of the weight and the bias."""
    normalized, weight = ctx.saved_tensors
    has_bias = ctx.bias_dtype is not None
    dx, dweight, dbias = norm_backward(dy, dnew_residual, normalized, weight, has_bias, ctx.eps, ctx.form)
    of_rows = (dx,) if dnew_residual is None else (dx, dx)
    return *of_rows, None if weight is None else dweight, dbias.to(ctx.bias_dtype) if has_bias else None, None, None


def _refuse(ctx: Any, *gradients: Tensor) -> None:
    raise RuntimeError(TWICE)


for _name, _run, _fake, _backward, _setup in (
    ("norm", run_and_remember, _fake_norm, _differentiate, _keep),
    ("add_norm", run_and_remember_add, _fake_add_norm, _differentiate, _keep),
    ("norm_backward", run_and_remember_backward, _fake_norm_backward, _refuse, None),
):
    _library.impl(_name, _run, "CompositeExplicitAutograd")
    _torch_library.register_fake(f"fib_rmsnorm::{_name}", _fake, lib=_library)
    _torch_library.register_autograd(f"fib_rmsnorm::{_name}", _backward, setup_context=_setup, lib=_library)
