import torch

from .compile_per_shape import compile_per_shape


def layernorm(x, weight, eps):
    x32 = x.float()
    centered = x32 - x32.mean(dim=-1, keepdim=True)
    rstd = torch.rsqrt(centered.square().mean(dim=-1, keepdim=True) + eps)
    return (centered * rstd * weight.float()).to(x.dtype)


compiled = compile_per_shape(layernorm)


def run(x, weight, eps):
    return compiled(x, weight, eps)
