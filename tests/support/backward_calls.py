"""Inputs of backward passes, calls of their kernels, and the right gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from fib_rmsnorm.operators import find_operator

OPERATORS = ("rmsnorm_backward", "layernorm_backward", "fused_add_rmsnorm_backward")
DTYPES = (torch.float16, torch.bfloat16, torch.float32)

Tensors = dict[str, torch.Tensor]


def make_backward_inputs(
    operator: str,
    rows: int,
    hidden: int,
    dtype: torch.dtype = torch.float16,
    offset: int = 0,
    *,
    weight_dtype: torch.dtype | None = None,
    device: str = "cpu",
) -> Tensors:
    """Tensors by their parts, `offset` elements behind an aligned address."""

    def make(*shape: int, dtype: torch.dtype = dtype) -> torch.Tensor:
        values = torch.randn(shape, device=device).to(dtype)
        whole = torch.empty(values.numel() + offset, dtype=dtype, device=device)
        return whole[offset:].view(shape).copy_(values)

    parts = {"dy": make(rows, hidden), "dnew_residual": make(rows, hidden), "x": make(rows, hidden)}
    parts["weight"] = make(hidden, dtype=weight_dtype or dtype)
    found = find_operator(operator)
    parts |= found.derive_inputs(parts)
    return {part: parts[part] for part in found.arguments}


def make_backward_outputs(operator: str, inputs: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
    """Outputs full of NaN."""
    shapes = {"dx": inputs["x"], "dweight": inputs["weight"], "dbias": inputs["weight"]}
    return [torch.full_like(shapes[part], float("nan")) for part in find_operator(operator).outputs]


def call_backward(entry: Callable[..., Any], operator: str, inputs: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
    """The outputs of a call."""
    outputs = make_backward_outputs(operator, inputs)
    entry(*inputs.values(), *outputs)
    return outputs


def assert_right_gradients(operator: str, inputs: Mapping[str, torch.Tensor], outputs: list[torch.Tensor]) -> None:
    """Compare with float64, by the bounds of float32."""
    parts = find_operator(operator).outputs
    exact = find_operator(operator).compute_exact(inputs, dict.fromkeys(parts, torch.float64))
    for part, output in zip(parts, outputs, strict=True):
        right, bound = exact[part].values, exact[part].bound.double()
        tolerance = torch.finfo(output.dtype).eps * right.abs() + torch.finfo(output.dtype).smallest_normal
        assert ((output.double() - right).abs() <= bound + tolerance).all(), (part, output.dtype, output.shape)
