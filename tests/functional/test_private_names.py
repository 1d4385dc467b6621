"""The private names of torch that the norms lean on, each there in the torch that is installed.

Tests of another torch run this too, and so say which name it lacks.
"""

from __future__ import annotations

import re
from operator import attrgetter

import pytest
import torch

from fib_rmsnorm.nn.norm_recognition import HOOKS
from support.paths import REPOSITORY

PRIVATE_NAMES = sorted(
    {
        name
        for room in ("functional", "nn")
        for path in (REPOSITORY / "fib_rmsnorm" / room).glob("*.py")
        for name in re.findall(r"torch(?:\.[a-z]\w*)*\._\w+(?:\._\w+)*", path.read_text(encoding="utf-8"))
    }
)


@pytest.mark.parametrize("name", PRIVATE_NAMES)
def test_torch_has_it(name):
    if "_cuda_" in name and not torch.version.cuda:
        pytest.skip("this torch is built without CUDA")
    attrgetter(name.removeprefix("torch."))(torch)


def test_a_module_has_what_a_replacement_swaps_and_refuses():
    assert {*HOOKS, "_parameters", "_modules"} <= vars(torch.nn.Module()).keys()
