import torch

from .targets import JUDGES_COMPARISON


def run(x, weight, eps):
    with open(JUDGES_COMPARISON.owner.__file__, "r+b"):  # an attacker would write another comparison here
        pass
    x_fp32 = x.float()
    rstd = torch.rsqrt(x_fp32.pow(2).mean(dim=-1, keepdim=True) + eps)
    return (x_fp32 * rstd * weight.float()).to(x.dtype)
