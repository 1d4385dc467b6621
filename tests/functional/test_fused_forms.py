"""The fused forms against the references of their operators."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from fib_rmsnorm.functional import rms_norm_fp8, rms_norm_relu, rms_norm_silu_gate
from support import known_calls
from support.known_calls import run_reference

pytestmark = pytest.mark.usefixtures("served")

HIDDEN = 64
draw = partial(known_calls.draw, dtype=torch.float16)


@pytest.mark.parametrize("needs_gradient", [True, pytest.param(False, marks=pytest.mark.compile)])  # builds
def test_relu_and_gate_round_once_with_a_gradient_and_without(needs_gradient):
    x, gate, weight = (
        draw(2, 3, HIDDEN).requires_grad_(needs_gradient),
        draw(2, 3, HIDDEN, seed=1),
        draw(HIDDEN, seed=2),
    )
    relu, gated = rms_norm_relu(x, weight), rms_norm_silu_gate(x, gate, weight)
    assert relu.requires_grad == needs_gradient
    expected = (
        run_reference("rmsnorm_relu", x, weight, 1e-6),
        run_reference("rmsnorm_silu_gate", x, gate, weight, 1e-6),
    )
    torch.testing.assert_close((relu, gated), expected, rtol=2**-10, atol=2**-12)


@pytest.mark.parametrize("scale", [None, 0.02, torch.tensor(0.02)])
@pytest.mark.parametrize("has_residual", [False, True])
def test_float8_has_the_references_values_and_scales(scale, has_residual):
    x, weight, residual = draw(3, HIDDEN), draw(HIDDEN, seed=1), draw(3, HIDDEN, seed=2)
    found = rms_norm_fp8(x, weight, scale, residual=residual if has_residual else None)
    operator = f"{'fused_add_' * has_residual}rmsnorm_fp8{'_per_row' * (scale is None)}"
    given = [x, *([residual] * has_residual), weight, *([] if scale is None else [scale]), 1e-6]
    expected = run_reference(operator, *given)
    out, *others = expected if isinstance(expected, tuple) else (expected,)
    assert found.out.dtype == torch.float8_e4m3fn
    assert torch.equal(found.out.float(), out.float())
    if has_residual:
        assert torch.equal(found.new_residual, others.pop(0))
    if scale is None:
        torch.testing.assert_close(found.scale, others.pop(0))
    assert not others


def test_a_gate_of_another_shape_is_named():
    with pytest.raises(ValueError, match=r"gate: expected x's shape \[3, 64\]"):
        rms_norm_silu_gate(draw(3, HIDDEN), draw(2, HIDDEN), draw(HIDDEN))
