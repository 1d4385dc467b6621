# paste --definition rmsnorm_silu_gate_d4096
import torch


def rms_norm_gated(x, weight, z, eps=1e-5):
    y = x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + eps) * weight.float()
    return (y * torch.nn.functional.silu(z.float())).to(x.dtype)
