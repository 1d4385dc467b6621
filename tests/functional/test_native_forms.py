"""Each form that C++ serves once its kernel is known: a residual, a bias, no weight, and gradients."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as torch_functional

from fib_rmsnorm.functional import custom_ops, layer_norm, rms_norm, use_registry
from fib_rmsnorm.functional.custom_ops import TWICE, add_norm, norm
from support.known_calls import HIDDEN, draw

pytestmark = pytest.mark.compile  # compiling against torch takes most of a minute

EPS = 1e-6
FORMS = {
    "residual": lambda t: rms_norm(t["x"], t["weight"], EPS, residual=t["residual"]),
    "llama, residual": lambda t: rms_norm(t["x"], t["weight"], EPS, residual=t["residual"], convention="llama"),
    "bias": lambda t: rms_norm(t["x"], t["weight"], EPS, bias=t["bias"]),
    "no weight": lambda t: rms_norm(t["x"], None, EPS),
    "layer": lambda t: layer_norm(t["x"], t["weight"], t["bias"]),
    "layer, no bias": lambda t: layer_norm(t["x"], t["weight"]),
    "operator": lambda t: norm(t["x"], t["weight"], None, EPS, "rmsnorm"),
    "operator, residual": lambda t: add_norm(t["x"], t["residual"], t["weight"], None, EPS, "rmsnorm"),
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


@pytest.fixture
def only_known():
    """Have C++ fail where it would ask Python."""

    def fail(*_arguments):
        raise KeyError("asked")

    def connect(*asked):
        names = custom_ops.CONVENTION_OF
        custom_ops._native.connect(tuple(names.values()), tuple(names), TWICE, *asked, None)

    yield lambda: connect(fail, fail, fail)
    connect(custom_ops.run_and_remember, custom_ops.run_and_remember_add, custom_ops.run_and_remember_backward)
    use_registry(None)


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_a_form_whose_kernels_are_known_never_asks_python(form, grad, only_known, monkeypatch):
    t = tensors(grad)
    for _ in range(2):  # the first backward pass is Python's own
        outputs = FORMS[form](t)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        first = differentiate(outputs, t) if grad and form != "no weight" else []
    only_known()
    monkeypatch.setattr("fib_rmsnorm.functional.norms.check_parameters", None)  # which Python's way calls
    outputs = FORMS[form](t)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    torch.testing.assert_close(outputs, exact(form, t), rtol=1e-5, atol=1e-5)
    if first:
        found = differentiate(outputs, t)
        assert all(torch.equal(each, again) for each, again in zip(first, found, strict=True))
        for each, right in zip(found, differentiate(exact(form, t), t), strict=True):
            torch.testing.assert_close(each, right, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("which", [0, 1])
def test_each_of_two_outputs_has_a_gradient_of_its_own(which):
    t = tensors(grad=True)
    for _ in range(3):
        found = differentiate((FORMS["residual"](t)[which],), t)
    for each, right in zip(found, differentiate((exact("residual", t)[which],), t), strict=True):
        torch.testing.assert_close(each, right, rtol=1e-4, atol=1e-4)


def test_a_sum_is_kept_for_the_gradient_and_must_not_change():
    t = tensors(grad=True)
    FORMS["residual"](t)
    out, new_residual = FORMS["residual"](t)
    with torch.no_grad():
        new_residual.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_a_gradient_of_two_outputs_is_not_differentiated_again():
    t = tensors(grad=True)
    for _ in range(3):
        (gradient,) = torch.autograd.grad(FORMS["residual"](t)[0].sum(), t["x"], create_graph=True)
        with pytest.raises(RuntimeError, match="the gradient of a norm cannot be differentiated again"):
            gradient.sum().backward()


@pytest.mark.parametrize(
    "change",
    [
        lambda residual: residual.transpose(0, 1).contiguous().transpose(0, 1),
        lambda residual: torch._neg_view(-residual),
        lambda residual: residual.as_strided(residual.shape, residual.stride(), 0),
    ],
    ids=["strides", "negated", "a view"],
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


def test_a_layer_norm_without_a_weight_is_torchs_own():
    x = draw(2, HIDDEN, grad=True)
    found = layer_norm(x)
    assert torch.equal(found, torch_functional.layer_norm(x, (HIDDEN,)))
    assert "NativeLayerNorm" in found.grad_fn.name()
