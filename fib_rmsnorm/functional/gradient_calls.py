"""The gradients of a norm by the registry's kernel for them, or by torch where none serves."""

from __future__ import annotations

import torch
from torch import Tensor

from fib_rmsnorm.functional.forms import name_gradient_operator
from fib_rmsnorm.functional.formulas import Gradients, differentiate
from fib_rmsnorm.functional.kernel_calls import ChosenKernel, find_for, rows_of, run_kernel
from fib_rmsnorm.functional.observers import are_plain, is_watched

TWICE = (
    "fib_rmsnorm: the gradient of a norm cannot be differentiated again; for double backward use "
    "torch.nn.functional.rms_norm or layer_norm"
)
_MOST_BY_NORM = 1 << 24
"""Elements: 4096 rows of 4096, with which a step takes an H200 as long by one kernel as by five, and the host less."""
_MOST_MOMENTS = 1 << 20
"""Elements of which a CPU computes the moments at once."""


def differentiate_eagerly(
    form: str,
    eps: float,
    bias_dtype: torch.dtype | None,
    dy: Tensor,
    dnew_residual: Tensor | None,
    x: Tensor,
    weight: Tensor | None,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """The gradients of x, the weight and the bias, past torch's dispatcher if nothing but autograd watches."""
    has_bias = bias_dtype is not None
    if torch.is_grad_enabled() or not are_plain(dy, dnew_residual) or is_watched():
        # With create_graph, the operator's own gradient refuses.
        dx, dweight, dbias = torch.ops.fib_rmsnorm.norm_backward(dy, dnew_residual, x, weight, has_bias, eps, form)
    else:
        dx, dweight, dbias = run_norm_backward(form, dy, dnew_residual, x, weight, has_bias=has_bias, eps=eps)
    return dx, None if weight is None else dweight, dbias.to(bias_dtype) if has_bias else None


def run_norm_backward(
    form: str, dy: Tensor, dnew_residual: Tensor | None, x: Tensor, weight: Tensor | None, *, has_bias: bool, eps: float
) -> Gradients:
    """The gradients of x, the weight and the bias; x is the new residual if a residual was added.

    The kernels of the forward pass do not return a row's statistics, so they are computed here from x.
    """
    chosen = find_gradient(form, x, weight, has_residual=dnew_residual is not None) if x.numel() else None
    if chosen is not None and chosen.entry is not None and weight is not None:
        found = _run_kernel(chosen, dy, dnew_residual, x, weight, has_bias=has_bias, eps=eps)
        if found is not None:
            return found if has_bias else found._replace(bias=x.new_empty(0))
    return differentiate(form, dy, dnew_residual, x, weight, has_bias=has_bias, eps=eps)


def find_gradient(form: str, x: Tensor, weight: Tensor | None, *, has_residual: bool) -> ChosenKernel | None:
    """How to run the gradients; None if no operator of the registry computes them."""
    operator = name_gradient_operator(form, residual=has_residual)
    return None if operator is None or weight is None else find_for(operator, x, weight)


def _run_kernel(
    chosen: ChosenKernel,
    dy: Tensor,
    dnew_residual: Tensor | None,
    x: Tensor,
    weight: Tensor,
    *,
    has_bias: bool,
    eps: float,
) -> Gradients | None:
    """The gradients by kernels; None if none takes the call."""
    rows, dy_rows, weight = rows_of(x), rows_of(dy), weight.contiguous().resolve_neg()
    dx, dweight = torch.empty_like(rows), torch.empty_like(weight)
    if chosen.call.operator == "layernorm_backward":
        dbias = torch.empty_like(weight)
        is_done = run_kernel(chosen, dy_rows, rows, weight, *_moments(rows, eps), dx, dweight, dbias)
    else:
        above = [] if dnew_residual is None else [rows_of(dnew_residual)]
        is_done = run_kernel(chosen, dy_rows, *above, rows, weight, _rstd(rows, eps), dx, dweight)
        dbias = dy_rows.sum(0, dtype=torch.float32).to(weight.dtype) if has_bias else weight
    return Gradients(dx.view(x.shape), dweight, dbias) if is_done else None


def _rstd(rows: Tensor, eps: float) -> Tensor:
    """The reciprocal of each row's root mean square, without a copy of x in float32.

    On a GPU, of few elements, by torch's own RMSNorm (since torch 2.9): one kernel rather than five, 5 against 16 us at
    512 rows of 4096 on an H200. Of many, what it writes besides takes longer: 80 against 51 us at 16384 rows.
    """
    if rows.is_cuda and rows.numel() <= _MOST_BY_NORM and hasattr(torch, "_fused_rms_norm"):
        return torch._fused_rms_norm(rows, list(rows.shape[-1:]), None, eps)[1].view(-1)
    norm = torch.linalg.vector_norm(rows, dim=-1, dtype=torch.float32)
    return torch.rsqrt(norm.square() / rows.shape[-1] + eps)


def _moments(rows: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """The mean of each row, and the reciprocal of its standard deviation, in float32.

    By torch's own LayerNorm, which reads each row once: `var_mean` takes ten times as long on a CPU, and on a GPU
    needs a copy of the rows in float32.
    """
    if rows.is_cuda:
        _, mean, rstd = torch.native_layer_norm(rows, rows.shape[-1:], None, None, eps)
        return mean.view(-1), rstd.view(-1)
    # On a CPU the statistics have the weight's dtype. Their rows come in parts because the norm is written too: to
    # memory that the next part takes again, rather than to as much as x has, which took 25 ms instead of 7.
    ones = rows.new_ones(rows.shape[-1], dtype=torch.float32)
    parts = torch.split(rows, max(_MOST_MOMENTS // rows.shape[-1], 1))
    found = [torch.native_layer_norm(part, rows.shape[-1:], ones, ones, eps)[1:] for part in parts]
    return torch.cat([mean for mean, _ in found]).view(-1), torch.cat([rstd for _, rstd in found]).view(-1)
