"""Quack below its public function, whose only work is to refuse weights of 16 bits, which the kernel takes."""

import torch
from quack.rmsnorm import _rmsnorm_fwd


def run(x, weight, bias, eps):
    out = torch.empty_like(x)
    _rmsnorm_fwd(x, weight, out, bias, None, None, None, None, eps, is_layernorm=True)
    return out
