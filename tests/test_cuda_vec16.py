"""The CUDA Solution where its launch depends on who calls it."""

from __future__ import annotations

import threading

import pytest
import torch

from fib_rmsnorm.building import build_entry
from fib_rmsnorm.building.cache import cache_folder
from fib_rmsnorm.registry import Registry, pack
from support.paths import REPOSITORY

CUDA = "rmsnorm_cuda_vec16_v1"
EPS = 1e-6


def build_for_cuda():
    (solution,) = [solution for solution in pack(Registry(REPOSITORY)) if solution.name == CUDA]
    return build_entry(solution, "cuda:0", cache_folder())


def assert_normalized(out, x, weight):
    torch.testing.assert_close(out, torch.nn.functional.rms_norm(x, (4096,), weight, EPS), rtol=2e-3, atol=1e-6)


@pytest.mark.gpu
@pytest.mark.parametrize("warm", [False, True])
def test_a_new_thread_whose_first_use_of_the_gpu_is_this_kernel(warm):
    """The driver, which launches it, gives a thread no context; the runtime does."""
    entry = build_for_cuda()
    x, weight = torch.randn(3, 4096, device="cuda:0").half(), torch.randn(4096, device="cuda:0").half()
    out = torch.full_like(x, float("nan"))
    torch.cuda.synchronize()
    if warm:
        entry(x, weight, EPS, out.clone())
    failures = []

    def call():
        try:
            entry(x, weight, EPS, out)
        except RuntimeError as error:
            failures.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    torch.cuda.synchronize()
    assert failures == []
    assert_normalized(out, x, weight)


@pytest.mark.gpu
def test_devices_in_turn():
    """The driver's handle of a kernel is good on one device only."""
    devices = [f"cuda:{number}" for number in range(torch.cuda.device_count())]
    entry = build_for_cuda()
    for device in (*devices, *devices):
        x, weight = torch.randn(3, 4096, device=device).half(), torch.randn(4096, device=device).half()
        out = torch.full_like(x, float("nan"))
        entry(x, weight, EPS, out)
        torch.cuda.synchronize(device)
        assert_normalized(out, x, weight)
        assert torch.cuda.current_device() == 0
