"""Entry point of RMSNorm with Llama's rounding in CuTe DSL."""

import torch

from .norm_entry import run_norm
from .norm_form import NormForm

FORM = NormForm(rounds_before_weight=True)


def run(x: torch.Tensor, weight: torch.Tensor, eps: float, out: torch.Tensor) -> None:
    """Write x * rsqrt(mean(x^2) + eps), rounded to the dtype of x, times weight, into out, row by row."""
    run_norm(FORM, x, None, weight, None, eps, out)
