"""Entry point of add + RMSNorm with Llama's rounding in TileLang."""

import torch

from .norm_entry import run_norm
from .norm_form import NormForm

FORM = NormForm(adds_residual=True, rounds_sum=True, rounds_before_weight=True)


def run(
    x: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor,
    eps: float,
    out: torch.Tensor,
    new_residual: torch.Tensor,
) -> None:
    """Write x + residual into new_residual, and Llama's RMSNorm of new_residual into out."""
    run_norm(FORM, (x, residual), (weight,), eps, (out, new_residual))
