# 0 Called as functional_call(RMSLayerNorm(ModelConfig(d_model=hidden, norm_eps=eps), hidden, eps),
from dataclasses import dataclass

import torch


@dataclass
class ModelConfig:
    d_model: int = 768
    norm_eps: float = 1e-5


class LayerNormBase(torch.nn.Module):
    def __init__(self, config: ModelConfig, *, size=None, eps=1e-5):
        super().__init__()
        self.eps = config.norm_eps or eps
        self.weight = torch.nn.Parameter(torch.ones(size or config.d_model))


class RMSLayerNorm(LayerNormBase):
    def __init__(self, config: ModelConfig, size=None, eps=1e-5):
        super().__init__(config, size=size, eps=eps)

    def forward(self, x):
        return torch.nn.functional.rms_norm(x, self.weight.shape, self.weight, self.eps)
