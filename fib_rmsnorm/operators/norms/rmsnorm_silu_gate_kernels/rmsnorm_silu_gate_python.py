"""RMSNorm and SiLU gate in torch: out = x * rsqrt(mean(x^2) + eps) * weight * silu(gate), in float32, rounded once."""

import torch


def run(x: torch.Tensor, gate: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """Return x with each row normalized, scaled by weight, (hidden,), times silu(gate); x, gate: (batch, hidden)."""
    x_fp32 = x.float()
    mean_square = x_fp32.square().mean(dim=-1, keepdim=True)
    rstd = torch.rsqrt(mean_square + eps)
    return (x_fp32 * rstd * weight.float() * torch.nn.functional.silu(gate.float())).to(x.dtype)
