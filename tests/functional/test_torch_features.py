"""What torch does to functions and modules: compile, export, transform, checkpoint, autocast, distribute."""

from functools import partial
from typing import Any

import pytest
import torch
from torch.nn import functional as torch_functional

from fib_rmsnorm import nn
from fib_rmsnorm.functional import layer_norm, rms_norm
from support import known_calls
from support.command_line import run_python

pytestmark = pytest.mark.usefixtures("served")

HIDDEN = 64
draw = partial(known_calls.draw, dtype=torch.float64)


def block(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    out, residual = rms_norm(x, weight, residual=residual)
    return layer_norm(out, weight, bias) * 2 + rms_norm(residual, convention="llama")


def gradients(function, *tensors: torch.Tensor) -> list[torch.Tensor]:
    leaves = [each.detach().requires_grad_() for each in tensors]
    out = function(*leaves)
    return [out, *torch.autograd.grad(out.square().sum(), leaves)]


def arguments() -> list[torch.Tensor]:
    return [draw(3, HIDDEN), draw(3, HIDDEN, seed=1), draw(HIDDEN, seed=2), draw(HIDDEN, seed=3)]


@pytest.mark.compile  # it imports torch's compiler
def test_compiled_as_one_graph_it_gives_what_it_gives_eagerly():
    compiled = torch.compile(block, fullgraph=True, backend="aot_eager")
    for found, expected in zip(gradients(compiled, *arguments()), gradients(block, *arguments()), strict=True):
        torch.testing.assert_close(found, expected)


@pytest.mark.compile  # it imports torch's compiler
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("device", ["cpu", "meta", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_a_compiler_gets_plain_operators_of_torch(device, dtype):
    graphs = []

    def keep(graph, _examples):
        graphs.append(graph.print_readable(print_output=False))
        return graph.forward

    tensors = [each.to(device, dtype) for each in arguments()]
    found = torch.compile(block, fullgraph=True, backend=keep)(*tensors)
    if device != "meta":  # which has no values
        torch.testing.assert_close(found, block(*tensors), rtol=2**-6, atol=2**-6)
    (graph,) = graphs
    assert "rms_norm" in graph
    assert "fib_rmsnorm.norm" not in graph
    assert "fib_rmsnorm.add_norm" not in graph


def test_gradients_are_right_by_finite_differences():
    leaves = [each.requires_grad_() for each in arguments()]
    torch.autograd.gradcheck(block, leaves, fast_mode=True)
    gemma = [draw(2, HIDDEN, grad=True), draw(HIDDEN, grad=True)]
    torch.autograd.gradcheck(lambda x, weight: rms_norm(x, weight, convention="gemma"), gemma, fast_mode=True)


@pytest.mark.compile  # it imports torch's compiler
def test_the_operators_pass_torchs_own_check():
    x, weight = draw(3, HIDDEN, grad=True), draw(HIDDEN, grad=True)
    torch.library.opcheck(torch.ops.fib_rmsnorm.norm.default, (x, weight, None, 1e-6, "torch"))
    residual = draw(3, HIDDEN, seed=1, grad=True)
    torch.library.opcheck(torch.ops.fib_rmsnorm.add_norm.default, (x, residual, weight, None, 1e-6, "llama"))


@pytest.mark.compile  # it imports torch's compiler
@pytest.mark.parametrize("strict", [False, True])
def test_an_exported_module_holds_the_operator_for_any_batch(strict):
    module = nn.RMSNorm(HIDDEN, 1e-6, dtype=torch.float64)
    batch = torch.export.Dim("batch")
    exported = torch.export.export(module, (draw(3, HIDDEN),), dynamic_shapes=({0: batch},), strict=strict)
    assert "fib_rmsnorm.norm" in str(exported.graph)
    x = draw(5, HIDDEN)
    torch.testing.assert_close(exported.module()(x), module(x))


def test_transforms_of_torch_func_see_the_formula():
    x, weight = draw(4, 3, HIDDEN, dtype=torch.float32), draw(HIDDEN, dtype=torch.float32)
    for _ in range(2):  # so that the kernel of each shape is known
        expected = torch.stack([rms_norm(each, weight) for each in x])
        torch.testing.assert_close(torch.vmap(lambda each: rms_norm(each, weight))(x), expected)
        of_sum = torch.func.grad(lambda each: rms_norm(each, weight).square().sum())(x)
        torch.testing.assert_close(of_sum, gradients(lambda each: rms_norm(each, weight), x)[1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_forward_mode_gradients_are_those_of_backward_mode(dtype):
    x, tangent, weight = draw(3, HIDDEN, dtype=dtype), draw(3, HIDDEN, seed=1, dtype=dtype), draw(HIDDEN, dtype=dtype)
    rms_norm(x, weight)  # so that its kernel is known
    found = torch.func.jvp(lambda each: rms_norm(each, weight), (x,), (tangent,))[1]
    _, expected = torch.autograd.functional.jvp(
        lambda each: torch_functional.rms_norm(each, (HIDDEN,), weight, 1e-6), x, tangent
    )
    torch.testing.assert_close(found, expected)
    with torch.autograd.forward_ad.dual_level():
        out = rms_norm(torch.autograd.forward_ad.make_dual(x, tangent), weight)
        torch.testing.assert_close(torch.autograd.forward_ad.unpack_dual(out).tangent, expected)


DISTRIBUTED = """
import os
import sys
import torch
from fib_rmsnorm import nn

torch.distributed.init_process_group("gloo", init_method=f"file://{sys.argv[1]}", rank=0, world_size=1)
module = nn.RMSNorm(64, dtype=torch.float64)
x = torch.randn(3, 64, dtype=torch.float64)
torch.nn.parallel.DistributedDataParallel(module)(x).square().sum().backward()
out = torch.nn.functional.rms_norm(x, (64,), module.weight)
torch.testing.assert_close(module.weight.grad, *torch.autograd.grad(out.square().sum(), module.weight))
print("averaged", flush=True)
os._exit(0)
"""
"""It ends without destroying the group: torch once waited for ever for a thread that wanted Python's lock."""


@pytest.mark.compile
def test_distributed_data_parallel_averages_its_gradients(tmp_path):
    # Gloo would look the host's name up, on whatever network there is.
    assert run_python("-c", DISTRIBUTED, tmp_path / "store", GLOO_SOCKET_IFNAME="lo").endswith("averaged\n")


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_a_cuda_graph_replays_forward_and_backward(dtype):
    module = nn.RMSNorm(4096, 1e-6, device="cuda", dtype=dtype)
    x = torch.randn(16, 4096, device="cuda", dtype=dtype, requires_grad=True)
    graphed: Any = torch.cuda.make_graphed_callables(module, (x,))
    out = graphed(x)
    out.sum().backward()
    expected = torch_functional.rms_norm(x.float(), (4096,), module.weight.float(), 1e-6).to(dtype)
    torch.testing.assert_close(out, expected)
    assert torch.isfinite(module.weight.grad).all()


@pytest.mark.gpu
@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_a_model_compiled_on_a_gpu_trains_as_it_does_eagerly(mode):
    model = torch.nn.Sequential(nn.RMSNorm(4096, 1e-6), nn.LayerNorm(4096), nn.RMSNorm(4096, 1e-6)).cuda().half()
    x = torch.randn(16, 4096, device="cuda").half().requires_grad_()
    compiled = torch.compile(model, fullgraph=True, mode=mode)
    leaves, dy = [x, *model.parameters()], torch.randn(16, 4096, device="cuda").half()
    for _ in range(4):  # a graph is captured at the second call
        expected = torch.autograd.grad(model(x), leaves, dy)
        found = torch.autograd.grad(compiled(x), leaves, dy)
        for each, right in zip(found, expected, strict=True):
            torch.testing.assert_close(each, right, rtol=5e-3, atol=5e-3 * right.abs().max().item())


@pytest.mark.gpu
@pytest.mark.parametrize("form", ["rms", "layer", "add"])
@pytest.mark.parametrize("rows", [8, 8192])  # by torch, and by our kernel of the gradients
def test_gradients_on_a_gpu_are_torchs(form, rows):
    x, weight, bias = (torch.randn(*s, 4096, device="cuda").half().requires_grad_() for s in ((rows,), (), ()))
    residual = torch.randn_like(x).requires_grad_()
    run, exact = {
        "rms": (lambda *t: rms_norm(t[0], t[1]), lambda *t: torch_functional.rms_norm(t[0], (4096,), t[1], 1e-6)),
        "layer": (lambda *t: layer_norm(*t[:3]), lambda *t: torch_functional.layer_norm(t[0], (4096,), *t[1:3])),
        "add": (
            lambda *t: rms_norm(t[0], t[1], residual=t[3])[0],
            lambda *t: torch_functional.rms_norm(t[0] + t[3], (4096,), t[1], 1e-6),
        ),
    }[form]
    tensors = [x, weight, bias, residual]
    wide = [each.detach().double().requires_grad_() for each in tensors]
    dy = torch.randn_like(x)
    found = torch.autograd.grad(run(*tensors), tensors, dy, allow_unused=True)
    expected = torch.autograd.grad(exact(*wide), wide, dy.double(), allow_unused=True)
    for each, right in zip(found, expected, strict=True):
        assert (each is None) == (right is None)
        if each is not None:
            torch.testing.assert_close(each.double(), right, rtol=5e-3, atol=5e-3 * right.abs().max().item())


@pytest.mark.gpu
def test_another_stream_and_another_device_than_the_current_one():
    last = torch.device("cuda", torch.cuda.device_count() - 1)
    x, weight = torch.randn(64, 4096, device=last), torch.ones(4096, device=last)
    stream = torch.cuda.Stream(last)
    stream.wait_stream(torch.cuda.current_stream(last))
    with torch.cuda.stream(stream):
        out = rms_norm(x, weight)
    torch.cuda.current_stream(last).wait_stream(stream)
    torch.testing.assert_close(out, torch_functional.rms_norm(x, (4096,), weight, 1e-6))
