"""A call whose kernel is known, by C++ and by the operator: what autograd, modes and threads see."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
import torch
from torch.nn import functional as torch_functional
from torch.overrides import BaseTorchFunctionMode
from torch.utils._python_dispatch import BaseTorchDispatchMode
from torch.utils.checkpoint import checkpoint

from fib_rmsnorm.functional import custom_ops, rms_norm, use_registry
from support.known_calls import HIDDEN, draw, known, serve_in_python

waits_for_a_compiler = pytest.mark.compile  # compiling against torch takes most of a minute


@pytest.fixture
def quick():
    """Run a call if C++ knows its kernel, else give None."""
    rms_norm(draw(2, 3, HIDDEN), draw(HIDDEN, seed=1))
    return lambda x, weight: custom_ops.quick_norm("torch", x, None, weight, None, 1e-6)


@pytest.fixture(params=[pytest.param("C++", marks=waits_for_a_compiler), "operator"])
def run(request, monkeypatch):
    """Run RMSNorm by C++, or by the operator, whose autograd is in Python as long as there is no C++."""
    if request.param == "C++":
        return request.getfixturevalue("quick")
    serve_in_python(monkeypatch)
    return lambda x, weight: custom_ops.norm(x, weight, None, 1e-6, "torch")


def exact(x: torch.Tensor, weight: torch.Tensor, dy: torch.Tensor) -> list[torch.Tensor]:
    wide = [each.detach().double().requires_grad_() for each in (x, weight)]
    found = torch.autograd.grad(torch_functional.rms_norm(wide[0], (HIDDEN,), wide[1], 1e-6), wide, dy.double())
    return [each.float() for each in found]


@pytest.mark.parametrize("of", ["both", "x", "weight"])
def test_gradients_go_to_those_that_ask_for_them(run, of):
    x, weight = known()
    x.requires_grad_(of != "weight")
    weight.requires_grad_(of != "x")
    dy = draw(2, 3, HIDDEN, seed=9)
    out = run(x, weight)
    out.backward(dy)
    for tensor, expected in zip((x, weight), exact(x, weight, dy), strict=True):
        if tensor.requires_grad:
            torch.testing.assert_close(tensor.grad, expected, rtol=1e-4, atol=1e-4)
        else:
            assert tensor.grad is None


def test_without_gradients_nothing_is_recorded(run):
    x, weight = known()
    with torch.no_grad():
        assert run(x, weight).grad_fn is None
    with torch.inference_mode():
        assert run(x, weight).is_inference()
    assert not run(x.detach(), weight.detach()).requires_grad


@pytest.mark.parametrize("which", [0, 1])
def test_a_tensor_that_changed_since_is_refused(run, which):
    tensors = known()
    out = run(*tensors)
    with torch.no_grad():
        tensors[which].mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_a_graph_serves_twice_only_if_it_is_kept(run):
    x, weight = known()
    out = run(x, weight)
    out.sum().backward(retain_graph=True)
    first = x.grad.clone()
    out.sum().backward()
    torch.testing.assert_close(x.grad, 2 * first)
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        out.sum().backward()


def test_a_gradient_is_not_differentiated_again(run):
    x, weight = known()
    (gradient,) = torch.autograd.grad(run(x, weight).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="the gradient of a norm cannot be differentiated again"):
        gradient.sum().backward()


def test_hooks_see_what_is_kept_and_what_comes_back(run):
    x, weight = known()
    packed, seen = [], []
    with torch.autograd.graph.saved_tensors_hooks(lambda each: packed.append(each) or each, lambda each: each):
        out = run(x, weight)
    assert [each.data_ptr() for each in packed] == [x.data_ptr(), weight.data_ptr()]
    out.register_hook(lambda dy: dy * 2)
    out.grad_fn.register_hook(lambda found, _dy: seen.append(len([each for each in found if each is not None])))
    out.sum().backward()
    torch.testing.assert_close(x.grad, exact(x, weight, torch.full_like(x, 2.0))[0], rtol=1e-4, atol=1e-4)
    assert seen == [2]


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointing_gives_the_same_gradients(run, reentrant):
    x, weight = known()
    run(x, weight).square().sum().backward()
    expected, x.grad, weight.grad = (x.grad, weight.grad), None, None
    checkpoint(lambda each: run(each, weight).square(), x, use_reentrant=reentrant).sum().backward()
    assert torch.equal(x.grad, expected[0])
    assert torch.equal(weight.grad, expected[1])


def test_threads_run_it_at_once(run):
    x, weight = known(grad=False)
    dy = draw(2, 3, HIDDEN, seed=9)

    def work(_number: int) -> list[torch.Tensor]:
        return [torch.autograd.grad(run(x, weight), weight, dy)[0] for _ in range(50)]

    (expected, *_) = work(0)
    with ThreadPoolExecutor(4) as pool:
        assert all(torch.equal(each, expected) for found in pool.map(work, range(4)) for each in found)


@waits_for_a_compiler
@pytest.mark.parametrize(
    "mode", [BaseTorchFunctionMode, BaseTorchDispatchMode, partial(torch.autocast, "cpu", torch.bfloat16)]
)
def test_a_mode_must_see_the_operator(quick, mode):
    x, weight = known(grad=False)
    with mode():
        assert quick(x, weight) is None
    assert quick(x, weight) is not None


class _Subclass(torch.Tensor):
    pass


@waits_for_a_compiler
@pytest.mark.parametrize(
    "change",
    [
        lambda x, weight: (x.transpose(0, 1), weight),
        lambda x, weight: (x.as_subclass(_Subclass), weight),
        lambda x, weight: (x, weight.as_subclass(_Subclass)),
        lambda x, weight: (x, weight[:32]),
        lambda x, weight: (x, torch.cat([weight, weight])[::2]),
        lambda x, weight: (x, None),
        lambda x, weight: (x[0, 0, 0], weight),
        lambda x, weight: (x.to_sparse(), weight),
        lambda x, weight: (torch.empty_like(x, device="meta"), weight),
        lambda x, weight: (torch._neg_view(x), weight),
    ],
)
def test_what_the_kernel_cannot_take_is_left_to_others(quick, change):
    x, weight = known(grad=False)
    assert quick(*change(x, weight.detach())) is None


@waits_for_a_compiler
def test_another_registry_is_asked_again(quick):
    x, weight = known(grad=False)
    assert quick(x, weight) is not None
    use_registry(None)
    assert quick(x, weight) is None
