"""A norm is known by what its forward computes."""

import pytest
import torch
from torch import nn

from fib_rmsnorm.nn.norm_recognition import UnrecognisedNormError, looks_like_a_norm, recognise_norm
from support import published_norms as published

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
SIXTEEN_BESIDE_FLOAT32 = (torch.bfloat16, torch.float32, False)


@pytest.mark.parametrize(
    ("module", "convention", "eps"),
    [
        (published.RoundedFirst(64), "llama", 1e-6),
        (published.RoundedFirst(128, 1e-12), "llama", 1e-12),
        (published.RoundedToWeight(64), "llama", 1e-6),
        (published.OnePlus(64), "gemma", 1e-6),
        (published.RoundedLast(64), "torch", 1e-5),
        (nn.RMSNorm(48), "torch", None),
        (nn.RMSNorm(64, 1e-5, elementwise_affine=False), "torch", 1e-5),
        (nn.LayerNorm(64), "layernorm", 1e-5),
        (nn.LayerNorm(1000, 1e-12, bias=False), "layernorm", 1e-12),
        (nn.LayerNorm(64, elementwise_affine=False), "layernorm", 1e-5),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else None,
)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_published_norm_is_recognised_in_each_dtype(module, convention, eps, dtype):
    module.to(dtype)
    assert looks_like_a_norm(module)
    found = recognise_norm(module)
    assert (found.convention, found.eps) == (convention, eps)
    assert {(each, each, False) for each in DTYPES} <= found.calls
    assert {type(each) for each in found.calls} == {tuple}  # torch.compile of torch 2.11 guards no named ones


def test_a_float32_weight_makes_some_norms_round_otherwise():
    """The product of a float32 weight and a bfloat16 row is float32 in LlamaRMSNorm, and bfloat16 in GemmaRMSNorm."""
    assert SIXTEEN_BESIDE_FLOAT32 not in recognise_norm(published.RoundedFirst(64)).calls
    assert SIXTEEN_BESIDE_FLOAT32 in recognise_norm(published.OnePlus(64)).calls


def hooked():
    module = published.RoundedLast(64)
    module.register_forward_hook(lambda *_: None)
    return module


def rebound():
    module = published.RoundedLast(64)
    module.forward = lambda x: x
    return module


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (published.OnePlusTooLate(64).bfloat16(), "computes something else"),
        (published.EpsOutside(64), "computes something else"),
        (published.NoisyInTraining(64), "computes something else"),
        (published.SquaresOf16Bits(64).half(), "computes something else"),
        (nn.GroupNorm(4, 64), "computes something else"),
        (published.WithGate(64), "takes more than x"),
        (published.AnotherName(64), "its parameters are scale"),
        (nn.BatchNorm1d(64), "submodules or buffers"),
        (nn.LayerNorm((4, 16)), "no weight of one dimension"),
        (nn.utils.parametrizations.weight_norm(nn.LayerNorm(64), dim=None), "submodules"),
        (hooked(), "has hooks"),
        (rebound(), "forward is replaced"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else None,
)
def test_what_is_not_ours_is_refused_with_the_reason(module, reason):
    with pytest.raises(UnrecognisedNormError, match=reason):
        recognise_norm(module)


def test_probing_leaves_a_module_as_it_is():
    module = published.RoundedFirst(64).bfloat16().train()
    weight, before = module.weight, module.weight.clone()
    recognise_norm(module)
    assert module.weight is weight and torch.equal(weight, before) and weight.grad is None and module.training
