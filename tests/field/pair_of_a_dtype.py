# 0 Called as rms_norm(x, weight, eps, torch.float16)[1]
from typing import NamedTuple

import torch


class Pair(NamedTuple):
    rstd: torch.Tensor
    out: torch.Tensor


def rms_norm(x, weight, eps, out_dtype):
    rstd = torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + eps)
    pair = Pair(rstd, (x.float() * rstd * weight.float()).to(out_dtype))
    assert pair.out.dtype is out_dtype
    return pair
