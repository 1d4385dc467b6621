import torch


def run(x, weight, eps):
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    x_fp32 = x.float()
    rstd = torch.rsqrt(x_fp32.pow(2).mean(dim=-1, keepdim=True) + eps)
    return (x_fp32 * rstd * weight.float()).to(x.dtype)
