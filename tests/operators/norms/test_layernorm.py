"""LayerNorm: right float32 kernels pass all hard rows, wrong ones fail, and their mistakes are named."""

from __future__ import annotations

import pytest
import torch

from fib_rmsnorm.evaluation.tensors.output_buffers import same_bits
from fib_rmsnorm.operators import find_operator, list_candidates
from fib_rmsnorm.schema import Definition
from support.mistakes import judge
from support.norms import FOREIGN_LAYERNORM

DTYPES = ("float16", "bfloat16", "float32")


def define(hidden, dtype="float16", *, bias=True) -> Definition:
    return find_operator("layernorm_bias" if bias else "layernorm").define(hidden, dtype)


def as_arguments(kernel):
    """Call a kernel of x, weight, bias and eps for Definitions without a bias too."""
    return lambda x, weight, eps, bias=None: kernel(x, weight, torch.zeros_like(weight) if bias is None else bias, eps)


def library(x, weight, bias, eps):
    return torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias, eps)


def scaled_first(x, weight, bias, eps):
    wide = x.float()
    variance, mean = torch.var_mean(wide, dim=-1, keepdim=True, correction=0)
    rstd = torch.rsqrt(variance + eps)
    return torch.addcmul(bias.float(), wide * rstd - mean * rstd, weight.float()).to(x.dtype)


def in_turn(x, weight, bias, eps):
    """The mean in a plain loop."""
    wide = x.float()
    total = torch.zeros_like(wide[:, :1])
    for column in wide.split(1, dim=1):
        total += column
    centered = wide - total / x.shape[1]
    rstd = torch.rsqrt(centered.square().mean(dim=-1, keepdim=True) + eps)
    return (centered * rstd * weight.float() + bias.float()).to(x.dtype)


RIGHT = (library, scaled_first, in_turn)


@pytest.mark.parametrize("hidden", [128, 1152, pytest.param(16384, marks=pytest.mark.fuzz)])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_right_float32_kernels_pass(tmp_path, dtype, bias, hidden):
    definition = define(hidden, dtype, bias=bias)
    for kernel in RIGHT if hidden < 16384 else (library,):
        assert judge(as_arguments(kernel), definition, tmp_path, batch=10) == {}, kernel.__name__


def expanded(x, weight, bias, eps):
    """E[x^2] - E[x]^2."""
    wide = x.float()
    mean = wide.mean(dim=-1, keepdim=True)
    rstd = torch.rsqrt((wide.square().mean(dim=-1, keepdim=True) - mean.square()).clamp(min=0) + eps)
    return ((wide - mean) * rstd * weight.float() + bias.float()).to(x.dtype)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_variance_of_two_large_means_is_wrong_in_float32_too(tmp_path, dtype, bias):
    assert judge(as_arguments(expanded), define(4096, dtype, bias=bias), tmp_path, batch=20) != {}


def test_references_are_probed_by_the_same_inputs_whichever_eps_they_may_hold():
    inputs = {"hidden_states": torch.randn(20, 128).bfloat16(), "weight": torch.randn(128).bfloat16()}
    compared = 0
    for candidates in list_candidates(FOREIGN_LAYERNORM):
        for index in range(3):
            made = [each.make_hard_case(inputs, index, "seed").inputs for each in candidates]
            compared += len(made) - 1
            assert all(same_bits(made[0][name], other[name]) for other in made for name in inputs)
    assert compared > 30
