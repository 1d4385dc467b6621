"""Tensors that never change, made once for each device, as a model holds them."""

import functools

import torch


@functools.cache
def zeros(size, dtype, device):
    """The bias of a layer without one, where a library wants a tensor: float zeros of shape [size]."""
    return torch.zeros(size, dtype=dtype, device=device)


@functools.cache
def scale_tensor(value, device):
    """A quantisation scale where a library wants a tensor: float32, of shape [1]."""
    return torch.tensor([value], dtype=torch.float32, device=device)
