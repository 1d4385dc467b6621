"""The norms as operators of torch (`torch.ops.fib_rmsnorm`), and who serves a call of them.

A norm has two routes to a kernel, which Python finds and has C++ (`deployment/quick_norms.cpp`) remember: `quick_norm`,
in C++ without torch's dispatcher, and the operators of torch.library, for autograd, modes, compilers and exporters,
which C++ serves too as soon as it is there.
Where no kernel serves, or C++ does not compile, torch computes the formula.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from fib_rmsnorm.deployment.kernels import KernelChoice, NormCall, serving
from fib_rmsnorm.deployment.native_calls import load_native_calls
from fib_rmsnorm.deployment.winner_table import Shape
from fib_rmsnorm.functional.formulas import FORMS, differentiate, is_torchs, normalize, rounds_sum

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


def count_torchs_passes(form: str, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> int:
    """How many of the two passes torch serves where gradients are wanted, forward first.

    On a GPU, if torch's kernels round alike: both of few elements, because the host sets the pace, and a node of ours
    costs it more; else one, because without its statistics of each row the backward pass has to read x once more.
    """
    has_kernel = form == "layernorm" or hasattr(torch.ops.aten, "_fused_rms_norm_backward")  # torch 2.9
    if not x.is_cuda or not has_kernel or not is_torchs(form, x, weight, bias):
        return 0
    return 2 if weight is None or x.numel() <= MOST_OF_TORCH else 1


TWICE = (
    "fib_rmsnorm: the gradient of a norm cannot be differentiated again; for double backward use "
    "torch.nn.functional.rms_norm or layer_norm"
)
_native: ModuleType | None = None


def _know_nothing(*_call: Any) -> None:
    """Leave every call to the operators, as long as there is no C++."""


quick_norm: Callable[..., Any] = _know_nothing
"""The norm by form, x, residual, weight, bias and eps; None for a call that it does not serve.

What more than autograd must see, it leaves to the operators.
"""


def remember_kernel(
    form: str,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    has_residual: bool,
    is_gradient: bool = False,
    has_refused: bool = False,
) -> bool:
    """Have C++ know the kernel of calls like this one; another than the known one, if that `has_refused` the call.

    False if torch is to serve: if there is no kernel, or no C++.
    """
    if x.numel() == 0 or form not in FORMS:
        return False
    find = partial(find_kernel, form, x, weight, bias, has_residual=has_residual, is_gradient=is_gradient)
    chosen, adds_before = find()
    if has_refused and chosen.kernel is not None:
        serving().pass_over(chosen.call, chosen.kernel.solution, "refused the call")
        chosen, adds_before = find()
    if chosen.kernel is None or (native := _connect()) is None:
        return False
    hidden, weight_dtype = x.shape[-1], None if weight is None else weight.dtype
    entry = chosen.kernel.entry
    handle = entry.__chandle__() if hasattr(entry, "__chandle__") else 0
    passes = 0 if has_residual or is_gradient else count_torchs_passes(form, x, weight, bias)
    call = form, x.numel() // hidden, hidden, x.dtype, weight_dtype, x.get_device()
    native.remember(*call, bias is not None, has_residual, is_gradient, entry, handle, adds_before, passes)
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
    is_known = remember_kernel(form, x, weight, bias, residual is not None)  # to the operator, which is C++ then
    return (run_operator if is_known else normalize)(form, x, residual, weight, bias, eps)


def _run_norm_backward(
    dy: Tensor, dnew_residual: Tensor | None, x: Tensor, weight: Tensor | None, has_bias: bool, eps: float, form: str
) -> Any:
    is_known = remember_kernel(form, x, weight, None, dnew_residual is not None, is_gradient=True)
    return (norm_backward if is_known else differentiate)(dy, dnew_residual, x, weight, has_bias, eps, form)


for _name, _run, _fake, _backward, _setup in (
    ("norm", lambda x, *of: _run_add_norm(x, None, *of), lambda x, *_: x.new_empty(x.shape), _differentiate, _keep),
    ("add_norm", _run_add_norm, lambda x, *_: (x.new_empty(x.shape), x.new_empty(x.shape)), _differentiate, _keep),
    ("norm_backward", _run_norm_backward, differentiate, _refuse, None),
):
    _library.impl(_name, _run, "CompositeExplicitAutograd")
    _torch_library.register_fake(f"fib_rmsnorm::{_name}", _fake, lib=_library)
    _torch_library.register_autograd(f"fib_rmsnorm::{_name}", _backward, setup_context=_setup, lib=_library)
