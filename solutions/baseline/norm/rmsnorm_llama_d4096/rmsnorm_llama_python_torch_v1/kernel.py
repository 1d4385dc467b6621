import torch


def run(x, weight, eps):
    x32 = x.to(torch.float32)
    mean_square = x32.pow(2).mean(-1, keepdim=True)
    x32 = x32 * torch.rsqrt(mean_square + eps)
    return weight * x32.to(x.dtype)
