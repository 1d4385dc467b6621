"""Llama's RMSNorm in torch: out = weight * (x * rsqrt(mean(x^2) + eps)).

The product in brackets is computed in float32 and rounded to the dtype of x before the weight.
"""

import torch


def run(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """Return x, (batch, hidden), with each row divided by its root mean square and scaled by weight, (hidden,)."""
    x_fp32 = x.float()
    mean_square = x_fp32.square().mean(dim=-1, keepdim=True)
    rstd = torch.rsqrt(mean_square + eps)
    return (x_fp32 * rstd).to(x.dtype) * weight
