# 0 Called as functional_call(Norm(SimpleNamespace(norm_eps=eps, hidden_size=hidden)), {'weight': weight}, (x,))
import torch


class Norm(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.weight = torch.nn.Parameter(torch.ones(config.hidden_size))

    def forward(self, x):
        return torch.nn.functional.rms_norm(x, self.weight.shape, self.weight, self.config.norm_eps)
