# 0 Called as rms_norm(x, weight, SimpleNamespace(eps=eps))
import torch


class NormConfig:
    eps = 1e-6


def rms_norm(x: torch.Tensor, weight: torch.Tensor, config: NormConfig) -> torch.Tensor:
    return torch.nn.functional.rms_norm(x, weight.shape, weight, config.eps)
