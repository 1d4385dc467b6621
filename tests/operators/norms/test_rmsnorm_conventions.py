"""Each convention has a Definition that its kernels pass, and that names the conventions of others."""

from __future__ import annotations

from itertools import permutations

import pytest
import torch

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.operators import find_operator
from fib_rmsnorm.registry import generate_workloads
from support.mistakes import judge_in_process, name_in_process

CONVENTIONS = ("torch", "llama", "gemma")
OPERATORS = {"torch": "rmsnorm", "llama": "rmsnorm_llama", "gemma": "rmsnorm_gemma"}
NAMES = {"torch": "rmsnorm_d4096", "llama": "rmsnorm_llama_d4096", "gemma": "rmsnorm_gemma_d4096"}
CALLED = {
    "torch": "with the weight multiplied in float32 and one rounding, as in torch",
    "llama": "before the weight, as in Hugging Face's LlamaRMSNorm",
    "gemma": "with 1 + weight instead of weight, as in Gemma",
}


def load(definition):
    namespace = {}
    exec(definition.reference, namespace)
    return namespace["run"]


def judge(run, definition, folder, batch=16):
    (workload,) = generate_workloads(definition, [batch])
    return judge_in_process(run, definition, workload, folder)


def name(run, definition, folder, batch=16):
    (workload,) = generate_workloads(definition, [batch])
    return name_in_process(run, definition, workload, folder)


def test_an_unknown_convention_is_refused():
    with pytest.raises(InputError, match=r"available: .*rmsnorm, rmsnorm_llama, rmsnorm_gemma"):
        find_operator("rmsnorm_t5")


@pytest.mark.parametrize("hidden", [512, pytest.param(4096, marks=pytest.mark.fuzz)])
@pytest.mark.parametrize(("convention", "other"), list(permutations(CONVENTIONS, 2)))
def test_the_kernels_of_another_are_wrong_and_named(tmp_path, convention, other, hidden):
    definition = find_operator(OPERATORS[convention]).define(hidden)
    named = name(load(find_operator(OPERATORS[other]).define(hidden)), definition, tmp_path)
    assert CALLED[other] in (named or "")


def llama_with(rstd_of):
    def run(x, weight, eps):
        x_fp32 = x.float()
        return weight * (x_fp32 * rstd_of(x_fp32, eps)).to(x.dtype)

    return run


def rstd_in_turn(x, eps):
    total = torch.zeros_like(x[:, :1])
    for column in x.pow(2).split(1, dim=1):
        total += column
    return torch.rsqrt(total / x.shape[1] + eps)


def rstd_in_float64(x, eps):
    return torch.rsqrt(x.double().pow(2).mean(dim=-1, keepdim=True) + eps)


def rstd_with_error(error):
    def rstd(x, eps):
        return (rstd_in_float64(x, eps) * (1 + error)).float()

    return rstd


RIGHT_IN_LLAMA = {
    "adds in turn": rstd_in_turn,
    "float64": rstd_in_float64,
    "a little more": rstd_with_error(1e-6),
    "a little less": rstd_with_error(-1e-6),
}


@pytest.mark.parametrize("rstd", RIGHT_IN_LLAMA)
def test_llama_accepts_what_float32_may_round_to_either_side(tmp_path, rstd):
    definition = find_operator("rmsnorm_llama").define(4096)
    assert not judge(llama_with(RIGHT_IN_LLAMA[rstd]), definition, tmp_path)


def test_llama_names_its_mistakes_too(tmp_path):
    definition = find_operator("rmsnorm_llama").define(512)
    no_eps = llama_with(lambda x, eps: torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True)))
    assert name(no_eps, definition, tmp_path) == ("the output equals RMSNorm without eps: use rsqrt(mean(x^2) + eps)")


def test_few_elements_of_llama_have_two_right_values():
    operator = find_operator("rmsnorm_llama")
    x, weight = torch.randn(64, 4096, dtype=torch.float16), torch.randn(4096, dtype=torch.float16)
    inputs = {"x": x, "weight": weight, "eps": 1e-6}
    dtypes = {"out": torch.float16}
    exact = operator.compute_exact(inputs, dtypes)["out"]
    assert 0.001 < (exact.values != exact.alternative).float().mean() < 0.05
