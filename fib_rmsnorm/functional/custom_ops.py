"""The norms as operators of torch (`torch.ops.fib_rmsnorm`): for autograd, modes, compilers and exporters.

A norm has two routes to a kernel, which Python finds and has C++ (`deployment/quick_norms.cpp`) remember: `quick_norm`,
in C++ without torch's dispatcher, and these operators of torch.library, which C++ serves too as soon as it is there.
Where no kernel serves, or C++ does not compile, torch computes the formula.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from fib_rmsnorm.deployment.kernels import serving
from fib_rmsnorm.deployment.native_calls import load_native_calls
from fib_rmsnorm.functional.formulas import FORMS, differentiate, normalize
from fib_rmsnorm.functional.kernel_calls import Trainer, find_kernel, find_trainer

TWICE = (
    "fib_rmsnorm: the gradient of a norm cannot be differentiated again; for double backward use "
    "torch.nn.functional.rms_norm or layer_norm"
)
_BIAS, _RESIDUAL, _IS_GRADIENT = 1, 2, 4
"""Flags of the type that C++ calls Extra."""
_native: ModuleType | None = None


def _know_nothing(*_call: Any) -> None:
    """Leave every call to the operators, as long as there is no C++."""


quick_norm: Callable[..., Any] = _know_nothing
"""The norm by form, x, residual, weight, bias and eps; None for a call that it does not serve.

What more than autograd must see, it leaves to the operators.
"""


def remember_kernel(
    form: str, extra: int, x: Tensor, weight: Tensor | None, bias: Tensor | None, has_refused: bool
) -> bool:
    """Have C++ know the kernel of calls like this one; another than the known one, if that `has_refused` the call.

    False if torch is to serve: if there is no kernel, or no C++.
    """
    if x.numel() == 0 or form not in FORMS:
        return False
    has_residual, is_gradient = bool(extra & _RESIDUAL), bool(extra & _IS_GRADIENT)
    find = partial(find_kernel, form, x, weight, bias, has_residual=has_residual, is_gradient=is_gradient)
    chosen, adds_before = find()
    if has_refused and chosen.kernel is not None:
        serving().pass_over(chosen, "refused the call")
        chosen, adds_before = find()
    if chosen.kernel is None or (native := _connect()) is None:
        return False
    hidden, weight_dtype = x.shape[-1], None if weight is None else weight.dtype
    entry = chosen.kernel.entry
    handle = entry.__chandle__() if hasattr(entry, "__chandle__") else 0
    call = form, x.numel() // hidden, hidden, x.dtype, weight_dtype, x.get_device(), extra
    trainer = Trainer.KERNELS if has_residual or is_gradient else find_trainer(form, x, weight, bias)
    native.remember(*call, entry, handle, adds_before, trainer)
    return True


def forget_quick_calls() -> None:
    """Forget all kernels, as after a change of the registry."""
    if _native is not None:
        _native.forget()


def _connect() -> ModuleType | None:
    global _native, quick_norm
    if _native is None and not isinstance(module := load_native_calls(), str):
        current_stream = torch._C._cuda_getCurrentRawStream if torch.version.cuda else None
        module.connect(TWICE, remember_kernel, normalize, differentiate, current_stream)
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


def run_operator(
    form: str, x: Tensor, residual: Tensor | None, weight: Tensor | None, bias: Tensor | None, eps: float
) -> Any:
    """The norm by its operator; with a residual, the norm and the sum."""
    if residual is None:
        return norm(x, weight, bias, eps, form)
    return add_norm(x, residual, weight, bias, eps, form)


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


def _run_add_norm(
    x: Tensor, residual: Tensor | None, weight: Tensor | None, bias: Tensor | None, eps: float, form: str
) -> Any:
    extra = _BIAS * (bias is not None) | _RESIDUAL * (residual is not None)
    if remember_kernel(form, extra, x, weight, bias, False):
        return run_operator(form, x, residual, weight, bias, eps)  # which is C++ now
    return normalize(form, x, residual, weight, bias, eps)


def _run_norm_backward(
    dy: Tensor, dnew_residual: Tensor | None, x: Tensor, weight: Tensor | None, has_bias: bool, eps: float, form: str
) -> Any:
    extra = _IS_GRADIENT | _RESIDUAL * (dnew_residual is not None)
    if remember_kernel(form, extra, x, weight, None, False):
        return norm_backward(dy, dnew_residual, x, weight, has_bias, eps, form)
    return differentiate(dy, dnew_residual, x, weight, has_bias, eps, form)


def _fake_add_norm(x: Tensor, residual: Tensor | None, *_others: Any) -> Any:
    """Tensors without values, of the shapes, dtypes and strides of the outputs."""
    return x.new_empty(x.shape) if residual is None else (x.new_empty(x.shape), x.new_empty(x.shape))


def _without_residual(run: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, *others: run(x, None, *others)


for _name, _run, _fake, _backward, _setup in (
    ("norm", *map(_without_residual, (_run_add_norm, _fake_add_norm)), _differentiate, _keep),
    ("add_norm", _run_add_norm, _fake_add_norm, _differentiate, _keep),
    ("norm_backward", _run_norm_backward, differentiate, _refuse, None),
):
    _library.impl(_name, _run, "CompositeExplicitAutograd")
    _torch_library.register_fake(f"fib_rmsnorm::{_name}", _fake, lib=_library)
    _torch_library.register_autograd(f"fib_rmsnorm::{_name}", _backward, setup_context=_setup, lib=_library)
