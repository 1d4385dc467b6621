import torch

from .compile_per_shape import compile_per_shape


def rmsnorm_no_weight(x, eps):
    x32 = x.float()
    mean_square = x32.square().mean(dim=-1, keepdim=True)
    return (x32 * torch.rsqrt(mean_square + eps)).to(x.dtype)


compiled = compile_per_shape(rmsnorm_no_weight)


def run(x, eps):
    return compiled(x, eps)
