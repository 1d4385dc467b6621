# 0 Called as Norm(hidden, eps).run(x, weight)
import torch


class Norm:
    def __init__(self, hidden_size=1024, eps=1e-6):
        self.shape, self.eps = (hidden_size,), eps

    def benchmark(self, x, weight):
        return self.run(x, weight)

    def run(self, x, weight):
        return torch.nn.functional.rms_norm(x, self.shape, weight, self.eps)
