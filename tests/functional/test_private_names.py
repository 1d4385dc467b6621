"""The private names of torch that the norms lean on: all of them, each there in the torch that is installed.

Tests of another torch run this too, and so say which name it lacks.
"""

from __future__ import annotations

import re
from operator import attrgetter

import pytest
import torch

from fib_rmsnorm.nn.norm_recognition import HOOKS
from support.paths import REPOSITORY

PRIVATE_NAMES = {
    "torch._C._are_functorch_transforms_active": "transforms of torch.func get formulas",
    "torch._C._cuda_getCurrentRawStream": "kernels in C++ are launched on torch's stream; in builds with CUDA only",
    "torch._C._dispatch_has_kernel_for_dispatch_key": "whether CUDA's autocast has RMSNorm compute float32",
    "torch._C._is_any_autocast_enabled": "a replaced norm asks it in each call",
    "torch.compiler._is_exporting_flag": "an export keeps the operator",
}
"""By name, what for."""


@pytest.mark.parametrize("name", PRIVATE_NAMES)
def test_torch_has_it(name):
    if "_cuda_" in name and not torch.version.cuda:
        pytest.skip("this torch is built without CUDA")
    attrgetter(name.removeprefix("torch."))(torch)


def test_a_module_has_what_a_replacement_swaps_and_refuses():
    assert {*HOOKS, "_parameters", "_modules"} <= vars(torch.nn.Module()).keys()


def test_no_other_is_used():
    sources = [path for room in ("functional", "nn") for path in (REPOSITORY / "fib_rmsnorm" / room).glob("*.py")]
    found = {
        name
        for path in sources
        for name in re.findall(r"torch(?:\.[a-z]\w*)*\._\w+(?:\._\w+)*", path.read_text(encoding="utf-8"))
    }
    assert found == PRIVATE_NAMES.keys()
