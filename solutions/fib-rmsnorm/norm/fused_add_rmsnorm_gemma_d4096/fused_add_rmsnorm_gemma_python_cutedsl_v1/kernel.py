"""Entry point of add + RMSNorm with Gemma's 1 + weight in CuTe DSL."""

import torch

from .norm_entry import run_norm
from .norm_form import NormForm

FORM = NormForm(adds_residual=True, weight_offset=1)


def run(
    x: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor,
    eps: float,
    out: torch.Tensor,
    new_residual: torch.Tensor,
) -> None:
    """Write x + residual into new_residual, and Gemma's RMSNorm of that sum before it was rounded into out."""
    run_norm(FORM, x, residual, weight, None, eps, out, new_residual)
