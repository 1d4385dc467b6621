# 0 PASSED as rmsnorm_d4096

import torch


def rms_norm(x: torch.Tensor, weight: torch.Tensor | None, eps: float = 1e-6) -> torch.Tensor:
    return torch.nn.functional.rms_norm(x, x.shape[-1:], weight, eps)


def rms_norm_add(x: torch.Tensor, y: torch.Tensor, weight: torch.Tensor | None, eps: float = 1e-6) -> torch.Tensor:
    return rms_norm(x + y, weight, eps)
