import torch

WORKSPACE = torch.empty(1 << 20, dtype=torch.float32)


def run(x, weight, eps, out):
    x_fp32 = WORKSPACE[: x.numel()].view(x.shape)
    x_fp32.copy_(x)
    rstd = torch.rsqrt(x_fp32.pow(2).mean(dim=-1, keepdim=True) + eps)
    out.copy_(x_fp32.mul_(rstd).mul_(weight))
