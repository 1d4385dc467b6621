"""A confined process may do what CUDA and the languages of GPUs do: step by step, to see what is refused."""

from __future__ import annotations

import time

import pytest

from fib_rmsnorm.building.cache import cache_variables
from fib_rmsnorm.building.native import toolchain_paths
from fib_rmsnorm.sandbox import Role
from fib_rmsnorm.sandbox.fork_server import ForkServer

STEPS = """
import subprocess
import traceback
from types import SimpleNamespace

import torch

from fib_rmsnorm.sandbox.channel import serve


def start():
    torch.cuda.init()


def call_kernel():
    assert (torch.ones(8, device="cuda") + 1).sum().item() == 16


def share_memory():
    from fib_rmsnorm.sandbox.output_transfer import offer

    assert offer([torch.ones(1 << 22, device="cuda")])  # torch's own way needs files in /dev/shm


def pin_memory():
    torch.ones(1 << 20).pin_memory().to("cuda", non_blocking=True)


def capture_graph():
    x = torch.ones(8, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        x += 1
    graph.replay()
    torch.cuda.synchronize()


def attach_timer():
    from fib_rmsnorm.evaluation.timing import choose_timer

    x = torch.ones(8, device="cuda")
    assert choose_timer("cuda:0").measure(lambda _: lambda: x.add_(1), 3, cold=True, budget_s=1.0)


def compile_triton():
    compiled = torch.compile(lambda x: (x * 2).relu() + 1)
    assert compiled(torch.ones(64, device="cuda")).sum().item() == 192


def run_nvcc():
    from fib_rmsnorm.building.native import find_cuda_home

    if home := find_cuda_home():
        subprocess.run([home / "bin" / "nvcc", "--version"], check=True, capture_output=True)


HANDLERS = (start, call_kernel, share_memory, pin_memory, capture_graph, attach_timer, compile_triton, run_nvcc)


def step(message):
    try:
        HANDLERS[message["number"]]()
    except BaseException:
        return SimpleNamespace(fault=traceback.format_exc())
    return SimpleNamespace(fault="")


def main(channel, _):
    serve(channel, {"step": step})
"""
NAMES = ("start", "kernel", "shared memory", "pinned memory", "graph", "timer", "triton", "nvcc")


@pytest.fixture(scope="module")
def confined(tmp_path_factory):
    folder = tmp_path_factory.mktemp("confined")
    (folder / "gpu_steps.py").write_text(STEPS)
    cache = folder / "cache"
    cache.mkdir()
    role = Role("gpu_steps", runs_untrusted_code=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        with ForkServer([role]) as fork_server:
            yield fork_server.spawn(role, cache_variables(cache), readable=toolchain_paths(), writable=[cache])


@pytest.mark.gpu
@pytest.mark.parametrize("number", range(len(NAMES)), ids=NAMES)
def test_a_confined_process_uses_the_gpu(confined, number):
    answer = confined.request({"do": "step", "number": number}, time.monotonic() + 200)
    assert answer["fault"] == ""
