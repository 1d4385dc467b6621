# paste --definition rmsnorm_bias_d4096
import torch


def rms_norm_ref(x, weight, bias, residual=None, eps=1e-6):
    return x


def rms_norm_fn(x, weight, bias, residual=None, weight1=None, bias1=None, eps=1e-6):
    y = torch.nn.functional.rms_norm(x.float(), weight.shape, weight.float(), eps)
    return (y if bias is None else y + bias.float()).to(x.dtype)
