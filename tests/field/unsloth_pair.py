# 0 Called as fast_rms_layernorm(SimpleNamespace(
import torch


def fast_rms_layernorm(layernorm, X, gemma=False):
    W = layernorm.weight
    eps = layernorm.variance_epsilon if hasattr(layernorm, "variance_epsilon") else layernorm.eps
    return torch.nn.functional.rms_norm(X, W.shape, W + 1 if gemma else W, eps)
