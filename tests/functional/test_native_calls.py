"""The C++ that calls kernels: what it asks Python for, the forms that it serves alone once it knows them, operators."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch.nn import functional as torch_functional

from fib_rmsnorm.deployment import native_calls
from fib_rmsnorm.functional import custom_ops, layer_norm, rms_norm, use_registry, why
from fib_rmsnorm.functional.custom_ops import TWICE, add_norm, find_kernel, norm
from fib_rmsnorm.functional.formulas import differentiate as differentiate_by_formula
from fib_rmsnorm.functional.formulas import normalize
from support.known_calls import HIDDEN, draw, known

pytestmark = pytest.mark.compile  # compiling against torch takes most of a minute


@pytest.fixture
def native():
    rms_norm(draw(2, HIDDEN), draw(HIDDEN))
    module = native_calls.load_native_calls()
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
    native.remember("torch", 2, 8, x.dtype, weight.dtype, -1, False, False, False, kernel, 0, False, 0)
    assert torch.equal(native.run("torch", x, None, weight, None, 1.0), x * weight)
    assert native.run("torch", x, None, weight, None, 2.0) is None
    with pytest.raises(KeyError, match="a mistake"):
        native.run("torch", x, None, weight, None, 3.0)
    assert calls == [((2, 8), (2, 8), eps) for eps in (1.0, 2.0, 3.0)]


@pytest.fixture
def reconnect(native):
    """Have C++ ask other functions, while the test runs."""

    def connect(remember=custom_ops.remember_kernel, formula=normalize, gradients=differentiate_by_formula):
        native.connect(TWICE, remember, formula, gradients, None)

    yield connect
    connect()


def fail(*_arguments):
    raise KeyError("asked")


def test_an_error_of_the_gradient_is_pythons_own(reconnect):
    x, weight = known()
    out = rms_norm(x, weight)
    out = rms_norm(x, weight)
    reconnect(fail)
    with pytest.raises(KeyError, match="asked"):
        out.sum().backward(retain_graph=True)
    reconnect()
    out.sum().backward()


def test_a_gradient_whose_kernel_refuses_is_computed_by_another(native, monkeypatch):
    def refuse(*_arguments):
        raise ValueError("not these")

    def find(*call, **named):
        chosen, adds_before = found(*call, **named)
        if named["is_gradient"] and not chosen.passed_over:
            chosen = replace(chosen, kernel=replace(chosen.kernel, entry=refuse))
        return chosen, adds_before

    use_registry(None)
    found, (x, weight) = find_kernel, known()
    monkeypatch.setattr(custom_ops, "find_kernel", find)
    ours = torch.autograd.grad(rms_norm(x, weight).sum(), (x, weight))
    exact = torch.autograd.grad(torch_functional.rms_norm(x, (HIDDEN,), weight, 1e-6).sum(), (x, weight))
    torch.testing.assert_close(ours, exact)
    (passed_over, *_) = found("torch", x, weight, is_gradient=True)[0].passed_over
    assert passed_over.endswith(": refused the call")


def test_the_operator_asks_python_only_for_what_it_does_not_know(reconnect):
    x, weight = known()
    expected = rms_norm(x, weight)
    reconnect(fail)
    assert torch.equal(norm(x, weight, None, 1e-6, "torch"), expected)
    of_other_strides = x.transpose(1, 2).contiguous().transpose(1, 2)
    assert torch.equal(norm(of_other_strides, weight, None, 1e-6, "torch"), expected)
    for other in (x[:1], x.double()):
        with pytest.raises(KeyError, match="asked"):
            norm(other, weight, None, 1e-6, "torch")
    with pytest.raises(KeyError, match="asked"):
        norm(x, None, None, 1e-6, "torch")


EPS = 1e-6
FORMS = {
    "residual": lambda t: rms_norm(t["x"], t["weight"], EPS, residual=t["residual"]),
    "llama, residual": lambda t: rms_norm(t["x"], t["weight"], EPS, residual=t["residual"], convention="llama"),
    "no bias": lambda t: rms_norm(t["x"], t["weight"], EPS),
    "bias": lambda t: rms_norm(t["x"], t["weight"], EPS, bias=t["bias"]),
    "no weight": lambda t: rms_norm(t["x"], None, EPS),
    "layer": lambda t: layer_norm(t["x"], t["weight"], t["bias"]),
    "layer, no bias": lambda t: layer_norm(t["x"], t["weight"]),
    "operator": lambda t: norm(t["x"], t["weight"], None, EPS, "torch"),
    "operator, residual": lambda t: add_norm(t["x"], t["residual"], t["weight"], None, EPS, "torch"),
}


def exact(form: str, t: dict[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """The outputs by torch."""
    x = t["x"] + t["residual"] if "residual" in form else t["x"]
    if "layer" in form:
        bias = None if "no bias" in form else t["bias"]
        return (torch_functional.layer_norm(x, (HIDDEN,), t["weight"], bias),)
    out = torch_functional.rms_norm(x, (HIDDEN,), None if form == "no weight" else t["weight"], EPS)
    return (out + t["bias"] if form == "bias" else out, *([x] if "residual" in form else []))


def tensors(grad: bool) -> dict[str, torch.Tensor]:
    shapes = {"x": (2, 3, HIDDEN), "residual": (2, 3, HIDDEN), "weight": (HIDDEN,), "bias": (HIDDEN,)}
    return {name: draw(*shape, seed=seed, grad=grad) for seed, (name, shape) in enumerate(shapes.items())}


def differentiate(outputs: tuple[torch.Tensor, ...], t: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    gradients = [draw(*each.shape, seed=9 + i, dtype=each.dtype) for i, each in enumerate(outputs)]
    found = torch.autograd.grad(outputs, [*t.values()], gradients, allow_unused=True)
    return [torch.zeros_like(of) if each is None else each for each, of in zip(found, t.values(), strict=True)]


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_a_form_whose_kernels_are_known_never_asks_python(form, grad, reconnect, monkeypatch):
    t = tensors(grad)
    for _ in range(2):  # the first backward pass is Python's own
        outputs = FORMS[form](t)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        first = differentiate(outputs, t) if grad and form != "no weight" else []
    reconnect(fail, fail, fail)
    monkeypatch.setattr("fib_rmsnorm.functional.norms._check_parameters", None)  # which Python's way calls
    outputs = FORMS[form](t)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    torch.testing.assert_close(outputs, exact(form, t), rtol=1e-5, atol=1e-5)
    if first:
        found = differentiate(outputs, t)
        assert all(torch.equal(each, again) for each, again in zip(first, found, strict=True))
        for each, right in zip(found, differentiate(exact(form, t), t), strict=True):
            torch.testing.assert_close(each, right, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("form", ["no bias", "no weight", "layer", "layer, no bias"])
@pytest.mark.parametrize("passes", [1, 2])
def test_torch_serves_where_gradients_are_wanted_as_on_a_gpu(form, passes, native, monkeypatch):
    use_registry(None)
    monkeypatch.setattr(custom_ops, "count_torchs_passes", lambda *_call: passes)
    t = tensors(grad=True)
    for is_known in (False, True):
        if is_known:  # then nobody calls this
            monkeypatch.setattr("fib_rmsnorm.functional.norms._check_parameters", None)
        out, (expected,) = FORMS[form](t), exact(form, t)
        for each, right in zip(differentiate((out,), t), differentiate((expected,), t), strict=True):
            torch.testing.assert_close(each, right, rtol=1e-4, atol=1e-4)
    assert torch.equal(out, expected)
    assert ("NormNode" in out.grad_fn.name()) == (passes == 1)
    assert why(t["x"], t["weight"]).passed_over[-1].startswith("with gradients torch serves")


@pytest.mark.parametrize(("operators", "passes"), [(("_fused_rms_norm",), 0), (("_fused_rms_norm_backward",), 2)])
def test_torch_2_8_whose_kernel_is_another_serves_no_rmsnorm(operators, passes, monkeypatch):
    monkeypatch.setattr(torch.ops, "aten", SimpleNamespace(**dict.fromkeys(operators)))
    monkeypatch.setattr(torch.Tensor, "is_cuda", True)
    monkeypatch.setattr(custom_ops, "is_torchs", lambda *_call: True)
    assert custom_ops.count_torchs_passes("rmsnorm", draw(2, HIDDEN), None, None) == passes


@pytest.mark.parametrize("which", [0, 1])
def test_each_of_two_outputs_has_a_gradient_of_its_own(which):
    t = tensors(grad=True)
    for _ in range(3):
        found = differentiate((FORMS["residual"](t)[which],), t)
    for each, right in zip(found, differentiate((exact("residual", t)[which],), t), strict=True):
        torch.testing.assert_close(each, right, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "change",
    [
        lambda residual: residual.transpose(0, 1).contiguous().transpose(0, 1),
        lambda residual: torch._neg_view(-residual),
    ],
    ids=["strides", "negated"],
)
def test_a_residual_of_another_layout_is_added_too(change):
    t = tensors(grad=False)
    expected = FORMS["residual"](t)
    found = FORMS["residual"]({**t, "residual": change(t["residual"])})
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("change", [lambda each: each[:1], lambda each: each.half(), lambda each: each.view(6, HIDDEN)])
def test_a_residual_that_is_not_like_x_is_refused_when_its_kernel_is_known(change):
    t = tensors(grad=False)
    FORMS["residual"](t)
    with pytest.raises(ValueError, match="residual: expected x's shape"):
        FORMS["residual"]({**t, "residual": change(t["residual"])})


def test_the_moments_of_many_rows_come_in_parts():
    x, weight, bias, dy = draw(300, 4096, grad=True), draw(4096, grad=True), draw(4096, grad=True), draw(300, 4096)
    expected = torch.autograd.grad(torch_functional.layer_norm(x, (4096,), weight, bias), (x, weight, bias), dy)
    for _ in range(3):
        found = torch.autograd.grad(layer_norm(x, weight, bias), (x, weight, bias), dy)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
