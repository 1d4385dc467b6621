"""The mean error of an output: none of what computes in float32 has one, and an error that no tolerance shows does."""

from __future__ import annotations

import pytest
import torch

from fib_rmsnorm.evaluation.judging.output_comparison import OutputPair, compare, measure_bias
from fib_rmsnorm.operators import find_operator
from fib_rmsnorm.operators.norms.float64_rows import float32_statistic_error, round_once
from support.mistakes import judge_in_process
from support.norms import workload_of

HIDDEN, ROWS = 4096, 32
COMMON_ERROR = float32_statistic_error(HIDDEN)
DTYPES = (torch.float16, torch.bfloat16)


def make_rows(seed: int = 0) -> torch.Tensor:
    return torch.randn(ROWS, HIDDEN, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("error", [4.5e-4, -4.5e-4, 1.2e-4, -1.2e-4])
@pytest.mark.parametrize("direction", [torch.Tensor.clone, torch.abs], ids=["outward", "upward"])
def test_finds_an_error_of_all_elements_within_their_tolerance(dtype, error, direction):
    exact = make_rows()
    right, wrong = round_once(exact, dtype), round_once(exact + error * direction(exact), dtype)
    assert compare(OutputPair(wrong, right)).mismatched < 0.02 * right.numel()
    bias, allowed = measure_bias(OutputPair(wrong, right), 0.0, COMMON_ERROR)
    assert abs(bias) > allowed and bias == pytest.approx(error, rel=0.2)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("error", [2.0**-22, -(2.0**-22), 0.9 * COMMON_ERROR])
@pytest.mark.parametrize("seed", range(5))
def test_allows_what_float32_shares(dtype, error, seed):
    """2 ulp are what an approximate reciprocal root of a GPU may be off by; the last is a sum in a plain loop."""
    exact = make_rows(seed)
    for rows in (1, ROWS):
        right, found = round_once(exact[:rows], dtype), round_once(exact[:rows] * (1 + error), dtype)
        bias, allowed = measure_bias(OutputPair(found, right), 0.0, COMMON_ERROR)
        assert abs(bias) < allowed


@pytest.mark.parametrize("dtype", DTYPES)
def test_chance_has_no_direction(dtype):
    """One in four elements is off by a unit, up or down."""
    right = round_once(make_rows(), dtype)
    step = torch.randint(-1, 2, right.shape, generator=torch.Generator().manual_seed(1), dtype=torch.int16)
    bias, allowed = measure_bias(OutputPair((right.view(torch.int16) + step).view(dtype), right), 0.0, COMMON_ERROR)
    assert abs(bias) < allowed


def test_a_bound_and_values_that_are_not_finite():
    right = torch.tensor([1.0, -2.0, float("inf"), float("nan"), 0.0], dtype=torch.float32)
    wrong = torch.tensor([1.5, -2.5, float("inf"), float("nan"), 0.0], dtype=torch.float32)
    bias, allowed = measure_bias(OutputPair(wrong, right, torch.tensor([0.5, 0.5, 0.0, 0.0, 0.0])), 0.25, 0.0)
    assert bias == pytest.approx(1 / 3) and allowed == pytest.approx((1.0 + 5 * 0.25 + 6 * 0.5**0.5) / 3)
    assert measure_bias(OutputPair(right * 0, right * 0), 0.0, 0.0) == (0.0, float("inf"))


def refine(x, weight, eps):
    """Newton's method on an approximate root gives 0 * inf, a NaN, where the formula gives 0."""
    wide = x.float()
    mean_square = wide.square().mean(dim=-1, keepdim=True) + eps
    rstd = torch.rsqrt(mean_square)
    return (wide * (rstd * (1.5 - 0.5 * mean_square * rstd * rstd)) * weight.float()).to(x.dtype)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("batch", [1, 8])
def test_a_refined_root_is_right(tmp_path, dtype, batch):
    definition = find_operator("rmsnorm").define(256, dtype)
    assert judge_in_process(refine, definition, workload_of(definition, batch), tmp_path) == {}
