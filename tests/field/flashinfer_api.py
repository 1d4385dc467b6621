# 0 PASSED as rmsnorm_d4096
import torch


def rmsnorm(
    inp: torch.Tensor,
    weight: torch.Tensor,
    eps: float = 1e-6,
    out: torch.Tensor | None = None,
    enable_pdl: bool | None = None,
) -> torch.Tensor:
    if out is None:
        out = torch.empty_like(inp)
    out.copy_(torch.nn.functional.rms_norm(inp, weight.shape, weight, eps))
    return out
