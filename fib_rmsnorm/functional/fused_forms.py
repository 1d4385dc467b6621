"""RMSNorm with what follows it in the same pass: ReLU, a SiLU gate, float8 with one scale or one for each row.

The kernels serve where no gradient is needed and nothing watches. Elsewhere, ReLU and the gate are the norm in float32
and torch's own operators, with gradients and one rounding too; float8 has no gradient.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as torch_functional

from fib_rmsnorm.functional.formulas import normalize_wide
from fib_rmsnorm.functional.kernel_calls import find_for, rows_of, run_kernel
from fib_rmsnorm.functional.norms import check_parameters, check_rows, is_transformed, rms_norm

LEAST_SCALE = 1 / 512
"""The limit of a row's scale, in units of 1 / the largest float8, as the operators of the registry have it."""


class Quantized(NamedTuple):
    """A norm in float8: times its scale it is the norm."""

    out: Tensor
    scale: Tensor
    """One number, or one for each row of x."""
    new_residual: Tensor | None
    """x + residual, if a residual was given."""


def rms_norm_relu(x: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
    """ReLU of RMSNorm, in x's dtype, rounded once."""
    check_parameters(x, weight=weight)
    if _may_run(x, weight):
        out = torch.empty_like(rows_of(x))
        if run_kernel(find_for("rmsnorm_relu", x, weight), rows_of(x), weight.contiguous(), eps, out):
            return out.view(x.shape)
    return torch.relu(_normalize_wide(x, weight, eps)).to(x.dtype)


def rms_norm_silu_gate(x: Tensor, gate: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
    """RMSNorm of x times silu(gate), where the gate has x's shape and dtype; in x's dtype, rounded once."""
    check_parameters(x, weight=weight)
    check_rows(x, gate=gate)
    if _may_run(x, weight, gate):
        out = torch.empty_like(rows_of(x))
        chosen = find_for("rmsnorm_silu_gate", x, weight)
        if run_kernel(chosen, rows_of(x), rows_of(gate), weight.contiguous(), eps, out):
            return out.view(x.shape)
    wide = _normalize_wide(x, weight, eps)
    return (wide * torch_functional.silu(gate.to(wide.dtype))).to(x.dtype)


@torch.no_grad()
def rms_norm_fp8(
    x: Tensor,
    weight: Tensor,
    scale: float | Tensor | None = None,
    eps: float = 1e-6,
    *,
    residual: Tensor | None = None,
    dtype: torch.dtype = torch.float8_e4m3fn,
) -> Quantized:
    """RMSNorm divided by `scale`, limited to the range of a float8 `dtype`, and rounded once; without gradients.

    `scale` is a number or a float32 tensor of one element. Without one, each row gets its largest magnitude over the
    largest float8.
    """
    check_parameters(x, weight=weight)
    check_rows(x, residual=residual)
    most = torch.finfo(dtype).max
    scales = None if scale is None else torch.as_tensor(scale, dtype=torch.float32, device=x.device)
    if _may_run(x, weight, residual):
        rows = rows_of(x)
        out, new_residual = torch.empty_like(rows, dtype=dtype), torch.empty_like(rows)
        by = rows.new_empty(rows.shape[0], dtype=torch.float32) if scales is None else scales
        operator = f"{'fused_add_' * (residual is not None)}rmsnorm_fp8{'_per_row' * (scale is None)}"
        given = [rows, *([] if residual is None else [rows_of(residual)]), weight.contiguous()]
        outputs = [out, *([] if residual is None else [new_residual]), *([by] if scale is None else [])]
        if run_kernel(find_for(operator, x, weight), *given, *([] if scale is None else [scale]), eps, *outputs):
            by = by.view(x.shape[:-1]) if scale is None else by
            return Quantized(out.view(x.shape), by, None if residual is None else new_residual.view(x.shape))
    total = None if residual is None else x + residual
    wide = x.float() if residual is None else x.float() + residual.float()
    normalized = normalize_wide("rmsnorm", wide, weight, None, eps, wide.dtype)
    if scales is None:
        scales = (normalized.abs().amax(-1) / most).clamp(min=LEAST_SCALE / most)
        divided = normalized / scales.unsqueeze(-1)
    else:
        divided = normalized / scales
    return Quantized(divided.clamp(-most, most).to(dtype), scales, total)


def _normalize_wide(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """The norm before it is rounded, by the operator: a compiler, an exporter and autograd see it."""
    if x.dtype == torch.float64:
        return rms_norm(x, weight, eps)
    return rms_norm(x.float(), weight.float(), eps)


def _may_run(x: Tensor, *others: Tensor | None) -> bool:
    """Whether a kernel may run at once: nothing compiles, traces or transforms the call, or needs its gradient."""
    given = [each for each in (x, *others) if each is not None]
    is_tracing: Any = torch.jit.is_tracing  # type: ignore[attr-defined]
    if torch.compiler.is_compiling() or is_tracing() or torch._C._len_torch_dispatch_stack():
        return False
    # A subclass may hold its values elsewhere.
    if any(type(each) not in (Tensor, torch.nn.Parameter) for each in given) or is_transformed(*given):
        return False
    needs_gradient = torch.is_grad_enabled() and any(each.requires_grad for each in given)
    return x.numel() > 0 and not needs_gradient
