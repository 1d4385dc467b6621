"""Checks of the tensors that a norm is given, whichever kernel serves. They raise ValueError or TypeError."""

from __future__ import annotations

from torch import Tensor


def check_parameters(x: Tensor, **parameters: Tensor | None) -> None:
    """Refuse an x without floats or dimensions, and a parameter that lacks one element for each column of x."""
    if x.dim() == 0:
        raise ValueError("x: expected at least one dimension, got a scalar")
    if not x.is_floating_point():
        raise TypeError(f"x: expected a floating-point dtype, got {x.dtype}")
    for name, tensor in parameters.items():
        if tensor is None:
            continue
        if tensor.dim() != 1 or tensor.shape[0] != x.shape[-1]:
            raise ValueError(f"{name}: expected shape [{x.shape[-1]}] as x's last dimension, got {list(tensor.shape)}")
        if tensor.device != x.device:
            raise ValueError(f"{name}: expected device {x.device} as x, got {tensor.device}")


def check_rows(x: Tensor, **others: Tensor | None) -> None:
    """Refuse a tensor that is not like x."""
    for name, tensor in others.items():
        if tensor is None or (tensor.shape == x.shape and tensor.dtype == x.dtype and tensor.device == x.device):
            continue
        raise ValueError(
            f"{name}: expected x's shape {list(x.shape)}, dtype {x.dtype} and device {x.device}, "
            f"got {list(tensor.shape)}, {tensor.dtype} and {tensor.device}"
        )
