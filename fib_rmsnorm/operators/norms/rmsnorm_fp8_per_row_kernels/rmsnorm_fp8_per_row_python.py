"""RMSNorm in torch, in float8_e4m3fn with a scale of each row: computed in float32, rounded once."""

import torch

LARGEST = 448.0  # the largest number of float8_e4m3fn


def run(x: torch.Tensor, weight: torch.Tensor, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return x normalized, scaled by weight and divided by its rows' scales, (batch, hidden), and these, (batch,)."""
    x_fp32 = x.float()
    rstd = torch.rsqrt(x_fp32.square().mean(dim=-1, keepdim=True) + eps)
    y = x_fp32 * rstd * weight.float()
    out_scale = (y.abs().amax(dim=-1) / LARGEST).clamp(min=1 / (LARGEST * 512))  # a row of zeros has one too
    return (y / out_scale[:, None]).clamp(-LARGEST, LARGEST).to(torch.float8_e4m3fn), out_scale
