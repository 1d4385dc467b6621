# 0 Called as run(x, weight, out, eps)
import torch


def run(x, weight, out, eps=1e-6):
    out.copy_(torch.nn.functional.rms_norm(x, weight.shape, weight, eps))
