"""Entry point of add + RMSNorm of the rounded sum in CuTe DSL."""

import torch

from .norm_entry import run_norm
from .norm_form import NormForm

FORM = NormForm(adds_residual=True, rounds_sum=True)


def run(
    x: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor,
    eps: float,
    out: torch.Tensor,
    new_residual: torch.Tensor,
) -> None:
    """Write x + residual into new_residual, and the RMSNorm of new_residual into out."""
    run_norm(FORM, x, residual, weight, None, eps, out, new_residual)
