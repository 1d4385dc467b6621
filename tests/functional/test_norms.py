"""The functions against torch's, and against the operators' references, on real kernels."""

from functools import partial

import pytest
import torch
from torch.nn import functional as torch_functional

from fib_rmsnorm.deployment import native_calls
from fib_rmsnorm.functional import custom_ops, layer_norm, rms_norm, use_registry
from fib_rmsnorm.functional.custom_ops import find_kernel
from fib_rmsnorm.operators import find_operator
from support import known_calls
from support.mistakes import load

served = pytest.mark.usefixtures("served")

HIDDEN = 96
draw = partial(known_calls.draw, dtype=torch.float16)
CONVENTIONS = ("torch", "llama", "gemma")
ULP = {torch.float16: 2**-10, torch.bfloat16: 2**-7, torch.float32: 2**-22, torch.float64: 2**-50}


def assert_close(found: torch.Tensor, expected: torch.Tensor, ulps: int = 1) -> None:
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    tolerance = ulps * ULP[found.dtype]
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


@served
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_rms_norm_and_its_gradients_are_torchs(dtype):
    x, weight = draw(4, 5, HIDDEN, dtype=dtype, grad=True), draw(HIDDEN, dtype=dtype, seed=1, grad=True)
    ours, torchs = rms_norm(x, weight), torch_functional.rms_norm(x, (HIDDEN,), weight, 1e-6)
    assert_close(ours, torchs)
    dy = draw(4, 5, HIDDEN, dtype=dtype, seed=2)
    for found, expected in zip(*(torch.autograd.grad(y, (x, weight), dy) for y in (ours, torchs)), strict=True):
        assert_close(found, expected, ulps=8)


@served
@pytest.mark.compile  # it builds a kernel
def test_layer_norm_and_its_gradients_are_torchs():
    x, weight, bias = draw(4, HIDDEN, grad=True), draw(HIDDEN, seed=1, grad=True), draw(HIDDEN, seed=2, grad=True)
    wide = [each.detach().double().requires_grad_() for each in (x, weight, bias)]
    ours, torchs = layer_norm(x, weight, bias), torch_functional.layer_norm(wide[0], (HIDDEN,), wide[1], wide[2])
    assert_close(ours, torchs.half())
    dy = draw(4, HIDDEN, seed=3)
    found = torch.autograd.grad(ours, (x, weight, bias), dy)
    for gradient, expected in zip(found, torch.autograd.grad(torchs, wide, dy.double()), strict=True):
        assert_close(gradient, expected.half())
    with pytest.raises(ValueError, match="convention: expected one of"):  # though its kernel is known
        rms_norm(x, weight, bias=bias, convention="layernorm")


@served
@pytest.mark.compile  # it builds kernels
@pytest.mark.parametrize("convention", CONVENTIONS)
def test_each_convention_rounds_as_its_operators_reference(convention):
    suffix = "" if convention == "torch" else f"_{convention}"
    x, residual, weight = draw(7, HIDDEN), draw(7, HIDDEN, seed=1), draw(HIDDEN, seed=2)
    out, new_residual = rms_norm(x, weight, 1e-5, residual=residual, convention=convention)
    reference = load(find_operator(f"fused_add_rmsnorm{suffix}").reference)
    expected, total = reference(x, residual, weight, 1e-5)
    assert_close(out, expected)
    assert torch.equal(new_residual, total)


@pytest.fixture
def no_compiler(monkeypatch, tmp_path):
    """The process has built nothing, and finds no compiler."""
    monkeypatch.setenv("FIB_RMSNORM_CACHE", str(tmp_path))
    monkeypatch.setenv("CXX", str(tmp_path / "c++"))
    monkeypatch.setattr(custom_ops, "_native", None)
    monkeypatch.setattr(custom_ops, "quick_norm", custom_ops._know_nothing)
    native_calls._try_build_native_calls.cache_clear()
    use_registry(None)
    yield
    native_calls._try_build_native_calls.cache_clear()
    use_registry(None)


def test_without_a_compiler_torch_serves_and_says_so_once(no_compiler):
    with pytest.warns(UserWarning, match="cannot be built here, so another kernel or torch serves: ") as warned:
        for _ in range(2):
            for convention in CONVENTIONS:
                test_each_convention_rounds_as_its_operators_reference(convention)
            test_layer_norm_and_its_gradients_are_torchs()
            x, weight = draw(7, HIDDEN, grad=True), draw(HIDDEN, grad=True)
            rms_norm(x, weight, residual=x)[0].sum().backward()
    assert len(warned) == 1  # for all kernels, which lack the same


@served
def test_strides_leading_dimensions_misalignment_and_negated_views_do_not_matter():
    weight, whole = draw(HIDDEN, seed=1), draw(3, 2, HIDDEN + 8)
    expected = rms_norm(whole[..., 1 : HIDDEN + 1].contiguous(), weight)
    assert torch.equal(rms_norm(whole[..., 1 : HIDDEN + 1], weight), expected)
    misaligned = draw(HIDDEN + 1)[1:]
    assert torch.equal(rms_norm(misaligned, weight), rms_norm(misaligned.clone()[None], weight)[0])
    strided = draw(2 * HIDDEN, seed=3)[::2]
    x = whole[..., :HIDDEN]
    assert torch.equal(rms_norm(x, strided), rms_norm(x, strided.contiguous()))
    for negated in (rms_norm(torch._neg_view(x), weight), rms_norm(x, torch._neg_view(weight))):
        assert torch.equal(negated, rms_norm(-x, weight))


@served
def test_an_empty_batch_gives_empty_gradients_and_zeros_for_the_weight():
    x, weight = draw(0, HIDDEN, grad=True), draw(HIDDEN, grad=True)
    rms_norm(x, weight).sum().backward()
    assert x.grad.shape == (0, HIDDEN)
    assert torch.equal(weight.grad, torch.zeros(HIDDEN, dtype=torch.float16))


@served
def test_a_float32_weight_beside_16_bits_gives_what_torch_gives():
    x, weight = draw(4, HIDDEN), draw(HIDDEN, dtype=torch.float32, seed=1)
    expected = torch_functional.rms_norm(x.float(), (HIDDEN,), weight, 1e-6).half()
    assert_close(rms_norm(x, weight), expected)


@pytest.mark.compile  # C++ calls the kernel
def test_on_a_cpu_a_kernel_gives_the_gradients_of_a_float32_weight_beside_16_bits_too():
    x, weight, dy = draw(4, HIDDEN, dtype=torch.bfloat16), draw(HIDDEN, dtype=torch.float32, seed=1), draw(4, HIDDEN)
    dx, dweight, _ = custom_ops.norm_backward(dy.bfloat16(), None, x, weight, False, 1e-6, "torch")
    wide = [each.double().requires_grad_() for each in (x, weight)]
    normalized = torch_functional.rms_norm(wide[0], (HIDDEN,), wide[1], 1e-6)
    expected = torch.autograd.grad(normalized, wide, dy.bfloat16().double())
    assert_close(dx, expected[0].bfloat16())
    assert_close(dweight, expected[1].float(), ulps=8)
    chosen, _ = find_kernel("torch", x, weight, is_gradient=True)
    assert str(chosen).startswith("rmsnorm_backward_cpp_simd_v1 serves")


@served
def test_without_an_eps_torch_chooses():
    x = draw(4, HIDDEN) * 1e-4
    assert_close(rms_norm(x, torch.ones_like(x[0]), eps=None), torch_functional.rms_norm(x, (HIDDEN,)))


@pytest.mark.parametrize(
    ("shape", "weight", "options", "message"),
    [
        ((2, 3), 4, {}, r"weight: expected shape \[3\] as x's last dimension, got \[4\]"),
        ((2, 3), 3, {"convention": "lama"}, "convention: expected one of 'torch', 'llama', 'gemma', got"),
        ((2, 3), 3, {"convention": "layernorm"}, "convention: expected one of .*, got 'layernorm'"),
        ((), 3, {}, "x: expected at least one dimension"),
        ((2, 3), 3, {"residual": torch.ones(2, 4)}, r"residual: expected x's shape \[2, 3\]"),
    ],
)
def test_what_does_not_fit_is_named(shape, weight, options, message):
    with pytest.raises(ValueError, match=message):
        rms_norm(torch.ones(shape), torch.ones(weight), **options)
