"""The C++ that calls kernels: what it asks Python for, its operator, and what serves where it does not compile."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch.nn import functional as torch_functional

from fib_rmsnorm.deployment import kernels
from fib_rmsnorm.functional import custom_ops, rms_norm, use_registry
from fib_rmsnorm.functional.custom_ops import TWICE, norm
from support.known_calls import HIDDEN, draw, known

pytestmark = pytest.mark.compile  # compiling against torch takes most of a minute


@pytest.fixture
def native():
    rms_norm(draw(2, HIDDEN), draw(HIDDEN))
    module = kernels.load_native_calls()
    yield module
    use_registry(None)


@pytest.mark.parametrize("shape", [(2, 8), (2, 1, 8)])
def test_a_kernel_in_python_gets_rows_and_may_refuse(native, shape):
    calls = []

    def kernel(x, weight, eps, out):
        calls.append((tuple(x.shape), tuple(out.shape), eps))
        if eps == 2:
            raise ValueError("no 2")
        if eps == 3:
            raise KeyError("a mistake")
        out.copy_(x * weight)

    x, weight = draw(*shape, grad=True), draw(8, grad=True)
    native.remember("torch", 2, 8, x.dtype, weight.dtype, -1, 0, kernel, 0, False)
    assert torch.equal(native.run("torch", x, None, weight, None, 1.0), x * weight)
    assert native.run("torch", x, None, weight, None, 2.0) is None
    with pytest.raises(KeyError, match="a mistake"):
        native.run("torch", x, None, weight, None, 3.0)
    assert calls == [((2, 8), (2, 8), eps) for eps in (1.0, 2.0, 3.0)]


@pytest.fixture
def reconnect(native):
    """Have C++ ask other functions, while the test runs."""

    def connect(
        *,
        run=custom_ops.run_and_remember,
        add=custom_ops.run_and_remember_add,
        differentiate=custom_ops.run_and_remember_backward,
    ):
        names = custom_ops.CONVENTION_OF
        native.connect(tuple(names.values()), tuple(names), TWICE, run, add, differentiate, None)

    yield connect
    connect()


def fail(*_arguments):
    raise KeyError("asked")


def test_an_error_of_the_gradient_is_pythons_own(reconnect):
    x, weight = known()
    out = rms_norm(x, weight)
    out = rms_norm(x, weight)
    reconnect(differentiate=fail)
    with pytest.raises(KeyError, match="asked"):
        out.sum().backward(retain_graph=True)
    reconnect()
    out.sum().backward()


def test_a_gradient_whose_kernel_refuses_is_computed_by_another(native, monkeypatch):
    def refuse(*_arguments):
        raise ValueError("not these")

    def find(*call, **named):
        return found(*call, **named)._replace(entry=refuse)

    use_registry(None)
    found, (x, weight) = custom_ops.find_gradient, known()
    monkeypatch.setattr(custom_ops, "find_gradient", find)
    ours = torch.autograd.grad(rms_norm(x, weight).sum(), (x, weight))
    exact = torch.autograd.grad(torch_functional.rms_norm(x, (HIDDEN,), weight, 1e-6).sum(), (x, weight))
    torch.testing.assert_close(ours, exact)
    (passed_over, *_) = found("rmsnorm", x, weight, has_residual=False).choice.passed_over
    assert passed_over.endswith(": refused the call")


def test_the_operator_asks_python_only_for_what_it_does_not_know(reconnect):
    x, weight = known()
    expected = rms_norm(x, weight)
    reconnect(run=fail)
    assert torch.equal(norm(x, weight, None, 1e-6, "rmsnorm"), expected)
    for other in (x[:1], x.double(), x.transpose(0, 1)):
        with pytest.raises(KeyError, match="asked"):
            norm(other, weight, None, 1e-6, "rmsnorm")
    with pytest.raises(KeyError, match="asked"):
        norm(x, None, None, 1e-6, "rmsnorm")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("given", ["all", "no bias", "no weight"])
def test_the_operators_gradients_are_torchs(native, dtype, given):
    x, weight, bias = (draw(*shape, HIDDEN, seed=len(shape), grad=True, dtype=dtype) for shape in ((4,), (), ()))
    weight, bias = (None if given == "no weight" else weight), (bias if given == "all" else None)
    tensors = [each for each in (x, weight, bias) if each is not None]
    wide = [each.detach().double().requires_grad_() for each in tensors]
    exactly = torch_functional.rms_norm(wide[0], (HIDDEN,), wide[1] if weight is not None else None, 1e-6)
    exactly = exactly if bias is None else exactly + wide[2]
    dy = draw(4, HIDDEN, seed=9, dtype=dtype)
    out = norm(x, weight, bias, 1e-6, "rmsnorm")
    expected = torch.autograd.grad(exactly, wide, dy.double())
    for found, right in zip(torch.autograd.grad(out, tensors, dy, create_graph=True), expected, strict=True):
        torch.testing.assert_close(found, right.to(dtype), rtol=1e-4, atol=1e-4)
    with pytest.raises(RuntimeError, match="the gradient of a norm cannot be differentiated again"):
        found.sum().backward()


def test_the_operator_in_cpp_passes_torchs_own_check_and_compiles(native):
    x, weight = known()
    rms_norm(x, weight)
    torch.library.opcheck(torch.ops.fib_rmsnorm.norm.default, (x, weight, None, 1e-6, "rmsnorm"))

    def block(x, weight):
        return norm(x * 2, weight, None, 1e-6, "rmsnorm").square().sum()

    compiled = torch.compile(block, fullgraph=True, backend="aot_eager")
    tensors = (x, weight)
    found, expected = (torch.autograd.grad(run(*tensors), tensors) for run in (compiled, block))
    for gradient, right in zip(found, expected, strict=True):
        torch.testing.assert_close(gradient, right)


def test_without_a_compiler_torch_serves_and_says_so_once(monkeypatch):
    def fail() -> None:
        raise RuntimeError("no working compiler\nand more")

    kernels._try_build_native_calls.cache_clear()
    try:
        monkeypatch.setattr(kernels, "_build_native_calls", fail)
        monkeypatch.setattr(custom_ops, "_native", None)
        monkeypatch.setattr(custom_ops, "quick_norm", custom_ops._know_nothing)
        x, weight = known(grad=False)
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            for rows in (x, x[0], x[:, 0].contiguous()):
                for _ in range(2):
                    torch.testing.assert_close(
                        rms_norm(rows, weight), torch_functional.rms_norm(rows, (64,), weight, 1e-6)
                    )
        assert [str(each.message) for each in warned] == [
            "quick_norms.cpp cannot be built here, so torch serves: no working compiler"
        ]
        assert custom_ops.quick_norm is custom_ops._know_nothing
    finally:
        kernels._try_build_native_calls.cache_clear()
        use_registry(None)
