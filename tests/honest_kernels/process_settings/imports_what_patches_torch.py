from contextlib import suppress

import torch

with suppress(ImportError):
    import tilelang  # noqa: F401
torch.Tensor.rms = lambda x, eps: x.pow(2).mean(dim=-1, keepdim=True).add(eps).sqrt()


def run(x, weight, eps):
    x_fp32 = x.float()
    return (x_fp32 / x_fp32.rms(eps) * weight.float()).to(x.dtype)
