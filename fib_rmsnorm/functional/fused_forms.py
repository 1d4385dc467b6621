"""RMSNorm with what follows it in the same pass: ReLU, a SiLU gate, float8 with one scale or one for each row.

The kernels serve where no gradient is needed and nothing watches. Elsewhere, ReLU and the gate are the norm in float32
and torch's own operators, with gradients and one rounding too; float8 has no gradient.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as torch_functional

from fib_rmsnorm.functional.formulas import add_and_normalize, normalize
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
    found = _quantize_by_kernel(x, weight, scale, eps, residual, dtype) if _may_run(x, weight, residual) else None
    if found is not None:
        return found
    wide, new_residual = x.float(), None
    if residual is not None:
        new_residual = add_and_normalize("rmsnorm", x, residual, weight, None, eps)[1]
        wide = wide + residual.float()
    normalized = normalize("rmsnorm", wide, weight, None, eps)
    most = torch.finfo(dtype).max
    if scale is None:
        by = (normalized.abs().amax(-1) / most).clamp(min=LEAST_SCALE / most)
        divided = normalized / by.unsqueeze(-1)
    else:
        by = _as_tensor(scale, x)
        divided = normalized / by
    return Quantized(divided.clamp(-most, most).to(dtype), by, new_residual)


def _quantize_by_kernel(
    x: Tensor,
    weight: Tensor,
    scale: float | Tensor | None,
    eps: float,
    residual: Tensor | None,
    dtype: torch.dtype,
) -> Quantized | None:
    """By the registry's kernel; None if none takes the call."""
    rows = rows_of(x)
    out = torch.empty_like(rows, dtype=dtype)
    new_residual = None if residual is None else torch.empty_like(rows)
    added = [] if residual is None else [rows_of(residual)]
    outputs: list[Any] = [out] if new_residual is None else [out, new_residual]
    given: list[Any] = [] if scale is None else [scale]
    by = rows.new_empty(rows.shape[0], dtype=torch.float32) if scale is None else _as_tensor(scale, x)
    operator = f"{'fused_add_' if added else ''}rmsnorm_fp8{'_per_row' if scale is None else ''}"
    outputs += [by] if scale is None else []
    if not run_kernel(find_for(operator, x, weight), rows, *added, weight.contiguous(), *given, eps, *outputs):
        return None
    by = by.view(x.shape[:-1]) if scale is None else by
    return Quantized(out.view(x.shape), by, None if new_residual is None else new_residual.view(x.shape))


def _as_tensor(scale: float | Tensor, x: Tensor) -> Tensor:
    return scale if isinstance(scale, Tensor) else torch.tensor(scale, dtype=torch.float32, device=x.device)


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
