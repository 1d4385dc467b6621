# 0 PASSED as layernorm_bias_d4096
# definition: layernorm_bias_d4096
import torch


def layer_norm(activations, gamma, beta, epsilon):
    return torch.nn.functional.layer_norm(activations, gamma.shape, gamma, beta, epsilon)
