# 0 Called as rms_norm(out, x, weight, eps)
import torch


def rms_norm(out: torch.Tensor, inp: torch.Tensor, weight: torch.Tensor, epsilon: float) -> None:
    out.copy_(torch.nn.functional.rms_norm(inp, weight.shape, weight, epsilon))
