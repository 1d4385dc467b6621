"""The right answer, for wrong kernels that cheat otherwise; packed into every Solution that imports it."""

import torch


def normalize(x, weight, eps):
    x_fp32 = x.float()
    rstd = torch.rsqrt(x_fp32.pow(2).mean(dim=-1, keepdim=True) + eps)
    return (x_fp32 * rstd * weight.float()).to(x.dtype)
