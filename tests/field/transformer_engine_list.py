# 0 Called as rmsnorm_fwd(x, weight, eps)[0]
import torch


def rmsnorm_fwd(input, weight, eps, ln_out=None, quantizer=None, otype=None, zero_centered_gamma=False):
    rsigma = torch.rsqrt(input.float().pow(2).mean(-1, keepdim=True) + eps)
    return [(input.float() * rsigma * weight.float()).to(input.dtype), None, rsigma]
