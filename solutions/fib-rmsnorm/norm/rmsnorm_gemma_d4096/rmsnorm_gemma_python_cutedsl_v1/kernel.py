"""Entry point of RMSNorm with Gemma's 1 + weight in CuTe DSL."""

import torch

from .norm_entry import run_norm
from .norm_form import NormForm

FORM = NormForm(weight_offset=1)


def run(x: torch.Tensor, weight: torch.Tensor, eps: float, out: torch.Tensor) -> None:
    """Write x * rsqrt(mean(x^2) + eps) * (1 + weight) into out, row by row."""
    run_norm(FORM, x, None, weight, None, eps, out)
