import torch


def run(x, weight, eps):
    x_fp32 = x.float()
    mean_square = x_fp32.pow(2).sum(dim=-1, keepdim=True) / (x.shape[-1] - 1)
    rstd = torch.rsqrt(mean_square + eps)
    return (x_fp32 * rstd * weight.float()).to(x.dtype)
