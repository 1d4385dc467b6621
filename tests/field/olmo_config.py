# 0 Called as functional_call(RMSLayerNorm(SimpleNamespace(d_model=hidden), size=hidden, eps=eps),
import torch


class LayerNormBase(torch.nn.Module):
    def __init__(self, config, *, size=None, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.weight = torch.nn.Parameter(torch.ones(size or config.d_model))


class RMSLayerNorm(LayerNormBase):
    def __init__(self, config, size=None, eps=1e-5):
        super().__init__(config, size=size, eps=eps)

    def forward(self, x):
        return torch.nn.functional.rms_norm(x, self.weight.shape, self.weight, self.eps)
