"""LayerNorm in torch: out = (x - mean) * rsqrt(var + eps) * weight + bias, in float32, rounded once."""

import torch


def run(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float) -> torch.Tensor:
    """Return x, (batch, hidden), with each row normalized, scaled by weight and shifted by bias, both (hidden,)."""
    x_fp32 = x.float()
    centered = x_fp32 - x_fp32.mean(dim=-1, keepdim=True)
    rstd = torch.rsqrt(centered.square().mean(dim=-1, keepdim=True) + eps)
    return (centered * rstd * weight.float() + bias.float()).to(x.dtype)
