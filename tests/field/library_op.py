# 0 PASSED as rmsnorm_d4096
import torch


@torch.library.custom_op("field::rms_norm", mutates_args=())
def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return torch.nn.functional.rms_norm(x, weight.shape, weight, eps)


@rms_norm.register_fake
def _(x, weight, eps):
    return torch.empty_like(x)
