import torch


def run(x, weight, eps):
    x_fp32 = x.float()
    rstd = torch.rsqrt(x_fp32.pow(2).mean(dim=-1, keepdim=True) + eps)
    buffer = torch.empty(x.shape[0] + 2, x.shape[1], dtype=x.dtype, device=x.device)
    return buffer[1:-1].copy_(x_fp32 * rstd * weight.float())
