import torch

from .compile_per_shape import compile_per_shape


def layernorm_bias(x, weight, bias, eps):
    x32 = x.float()
    centered = x32 - x32.mean(dim=-1, keepdim=True)
    rstd = torch.rsqrt(centered.square().mean(dim=-1, keepdim=True) + eps)
    return (centered * rstd * weight.float() + bias.float()).to(x.dtype)


compiled = compile_per_shape(layernorm_bias)


def run(x, weight, bias, eps):
    return compiled(x, weight, bias, eps)
