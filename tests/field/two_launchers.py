# 0 Called as rms_norm_launcher(out, x, weight, eps)
import torch


def rms_norm_launcher(output, x, weight, epsilon):
    output.copy_(torch.nn.functional.rms_norm(x, weight.shape, weight, epsilon))


def fused_add_rms_norm_launcher(x, residual, weight, epsilon):
    residual.add_(x)
    rms_norm_launcher(x, residual, weight, epsilon)
