# 0 Called as norm(weight, x, eps)
import torch


def norm(p, q, r):
    return torch.nn.functional.rms_norm(q, p.shape, p, r)
