"""A Llama of random weights, with torch's norms, and sequences that it can learn."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

SUCCESSORS = (0.7, 0.15, 0.1, 0.05)
"""The probabilities of the tokens that may follow a token."""


class LlamaSize(NamedTuple):
    """The sizes of a model and of its batches."""

    layers: int
    hidden: int
    heads: int
    vocabulary: int
    batch: int
    length: int


class SmallLlama(nn.Module):
    """Pre-norm blocks of attention with rotary positions and SwiGLU, as Touvron et al. 2023 (arXiv:2302.13971)."""

    def __init__(self, size: LlamaSize) -> None:
        super().__init__()
        self.embedding = nn.Embedding(size.vocabulary, size.hidden)
        self.blocks = nn.ModuleList(_Block(size.hidden, size.heads) for _ in range(size.layers))
        self.norm = nn.RMSNorm(size.hidden, eps=1e-5)
        self.head = nn.Linear(size.hidden, size.vocabulary, bias=False)
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, ids: Tensor, positions: Tensor, cache: list[Tensor] | None = None) -> Tensor:
        """The logits, [batch, length, vocabulary], of ids, [batch, length], at these positions, [length]."""
        x = self.embedding(ids)
        turn = _rotation(positions, self.blocks[0].head_size, x.dtype)
        for index, block in enumerate(self.blocks):
            x = block(x, turn, positions, None if cache is None else cache[index])
        return self.head(self.norm(x))

    def make_cache(self, batch: int, length: int) -> list[Tensor]:
        """Room for the keys and values of `length` positions in each layer."""
        heads, size = self.blocks[0].heads, self.blocks[0].head_size
        return [self.head.weight.new_zeros(2, batch, heads, length, size) for _ in self.blocks]


class _Block(nn.Module):
    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads, self.head_size, inner = heads, hidden // heads, hidden * 11 // 4
        self.attention_norm = nn.RMSNorm(hidden, eps=1e-5)
        self.qkv = nn.Linear(hidden, 3 * hidden, bias=False)
        self.out = nn.Linear(hidden, hidden, bias=False)
        self.feedforward_norm = nn.RMSNorm(hidden, eps=1e-5)
        self.gate_up = nn.Linear(hidden, 2 * inner, bias=False)
        self.down = nn.Linear(inner, hidden, bias=False)

    def forward(self, x: Tensor, turn: tuple[Tensor, Tensor], positions: Tensor, cache: Tensor | None) -> Tensor:
        batch, length, hidden = x.shape
        split = self.qkv(self.attention_norm(x)).view(batch, length, 3, self.heads, self.head_size)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        query, key = _rotate(query, turn), _rotate(key, turn)
        mask = None
        if cache is not None:
            cache[0].index_copy_(2, positions, key)
            cache[1].index_copy_(2, positions, value)
            key, value = cache[0], cache[1]
            mask = torch.arange(key.shape[2], device=x.device) <= positions[:, None]
        mixed = functional.scaled_dot_product_attention(query, key, value, mask, is_causal=cache is None)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, hidden))
        gate, up = self.gate_up(self.feedforward_norm(x)).chunk(2, -1)
        return x + self.down(functional.silu(gate) * up)


def _rotation(positions: Tensor, size: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    frequencies = 10000.0 ** (-torch.arange(0, size, 2, device=positions.device) / size)
    angles = positions[:, None] * frequencies
    return angles.cos().to(dtype), angles.sin().to(dtype)


def _rotate(x: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
    cos, sin = turn
    left, right = x.chunk(2, -1)
    return torch.cat([left * cos - right * sin, right * cos + left * sin], -1)


class TokenChain:
    """Sequences in which each token has four successors, so that a model can learn them, and no better."""

    def __init__(self, vocabulary: int) -> None:
        generator = torch.Generator().manual_seed(0)
        self.successors = torch.stack([torch.randperm(vocabulary, generator=generator) for _ in SUCCESSORS], 1)
        self._probabilities = torch.tensor(SUCCESSORS)

    @property
    def least_loss(self) -> float:
        """The entropy of a token after the first, in nats."""
        return float(-(self._probabilities * self._probabilities.log()).sum())

    def draw(self, size: LlamaSize, seed: int) -> Tensor:
        """Sequences, [batch, length + 1]."""
        generator = torch.Generator().manual_seed(seed)
        tokens = [torch.randint(0, size.vocabulary, (size.batch,), generator=generator)]
        for _ in range(size.length):
            choice = torch.multinomial(self._probabilities, size.batch, replacement=True, generator=generator)
            tokens.append(self.successors[tokens[-1], choice])
        return torch.stack(tokens, 1)

    def share_of_known_steps(self, sequences: Tensor) -> float:
        """The share of steps to a token that may follow."""
        may = self.successors[sequences[:, :-1]] == sequences[:, 1:, None]
        return float(may.any(-1).float().mean())
