# 1 no function 'run'
import torch


def rms_norm_backward(grad_output, x, weight, eps):
    rstd = torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + eps)
    normed, scaled = x * rstd, grad_output * weight
    return ((scaled - normed * (scaled * normed).mean(-1, keepdim=True)) * rstd).to(x.dtype), (
        grad_output * normed
    ).sum(0)
