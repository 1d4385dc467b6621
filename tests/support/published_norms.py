"""Norms as libraries publish them, under names that say nothing, and modules that only look like one."""

import torch
from torch import nn


class RoundedFirst(nn.Module):
    """Hugging Face's LlamaRMSNorm, Qwen2RMSNorm and Qwen3RMSNorm."""

    def __init__(self, hidden, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden))
        self.variance_epsilon = eps

    def forward(self, hidden_states):
        dtype = hidden_states.dtype
        hidden_states = hidden_states.to(torch.float32)
        variance = hidden_states.pow(2).mean(-1, keepdim=True)
        hidden_states = hidden_states * torch.rsqrt(variance + self.variance_epsilon)
        return self.weight * hidden_states.to(dtype)


class RoundedToWeight(RoundedFirst):
    """Hugging Face's T5LayerNorm: an RMSNorm, which rounds to the weight's dtype."""

    def forward(self, x):
        x = x * torch.rsqrt(x.to(torch.float32).pow(2).mean(-1, keepdim=True) + self.variance_epsilon)
        if self.weight.dtype in (torch.float16, torch.bfloat16):
            x = x.to(self.weight.dtype)
        return self.weight * x


class OnePlus(nn.Module):
    """Hugging Face's GemmaRMSNorm, Gemma2RMSNorm and Gemma3RMSNorm."""

    def __init__(self, hidden, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.zeros(hidden))

    def forward(self, x):
        wide = x.float()
        out = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return (out * (1.0 + self.weight.float())).type_as(x)


class RoundedLast(nn.Module):
    """Hugging Face's Olmo2RMSNorm and GptOssRMSNorm; 1 / sqrt, in another order."""

    def __init__(self, hidden, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden))
        self.small = eps

    def forward(self, x):
        wide = x.float()
        return (
            self.weight * (wide / torch.sqrt(self.small + wide.square().sum(-1, keepdim=True) / wide.shape[-1]))
        ).to(x.dtype)


class WithGate(RoundedLast):
    """Qwen3-Next's and Mamba-2's."""

    def forward(self, x, gate=None):
        return super().forward(x) if gate is None else super().forward(x) * nn.functional.silu(gate)


class OnePlusTooLate(OnePlus):
    """The weight of the first GemmaRMSNorm that Hugging Face published: rounded before 1 + weight."""

    def forward(self, x):
        wide = x.float()
        out = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return out.type_as(x) * (1 + self.weight)


class EpsOutside(RoundedLast):
    def forward(self, x):
        wide = x.float()
        return (self.weight * (wide / (wide.square().mean(-1, keepdim=True).sqrt() + self.small))).to(x.dtype)


class NoisyInTraining(RoundedLast):
    def forward(self, x):
        return super().forward(x + 0.1 * torch.randn_like(x) if self.training else x)


class SquaresOf16Bits(RoundedLast):
    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.small))


class AnotherName(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(hidden))
        self.eps = 1e-6

    def forward(self, x):
        return nn.functional.rms_norm(x, self.scale.shape, self.scale, self.eps)


class Decoder(nn.Module):
    """A model of two blocks, each with its norms, whose head is tied to its embedding."""

    def __init__(self, make_norm, hidden=64, vocabulary=256):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, hidden)
        self.blocks = nn.ModuleList(nn.Sequential(make_norm(hidden), nn.Linear(hidden, hidden)) for _ in range(2))
        self.norm = make_norm(hidden)
        self.head = nn.Linear(hidden, vocabulary, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, ids):
        x = self.embedding(ids).cumsum(1)  # each row has its own history, as in a model with attention
        for block in self.blocks:
            x = x + block(x)
        return self.head(self.norm(x))


def make_decoder(make_norm, dtype=torch.float32):
    """A Decoder with random weights, those of its norms too, and inputs for it."""
    torch.manual_seed(0)
    model = Decoder(make_norm)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.3)
    return model.to(dtype), torch.randint(0, 256, (16, 32))
