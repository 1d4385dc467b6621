# 1 no function 'run'; define run(x, weight, eps), or give the call with --call
import torch


class ExLlamaModule:
    def __init__(self, model, key):
        self.model, self.key = model, key


class RMSNorm(ExLlamaModule):
    def __init__(self, model, key, archparams=None):
        super().__init__(model, key)
        self.weight = None

    def load(self):
        self.weight = torch.nn.Parameter(self.model.load_tensor(f"{self.key}.weight"), requires_grad=False)

    def forward(self, hidden_states, cache=None, past_len=None, loras=None):
        return torch.nn.functional.rms_norm(hidden_states, self.weight.shape, self.weight, 1e-6)
