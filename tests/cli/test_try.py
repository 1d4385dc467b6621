"""`fib-rmsnorm try` as its user meets it."""

from __future__ import annotations

import pytest
from registries import RIGHT, make_registry

NAN = """\
import torch


def run(x, weight, eps):
    return torch.full_like(x, float("nan"))
"""


@pytest.fixture
def try_(fib, tmp_path):
    """Try a kernel with this source on the CPU."""
    registry = make_registry(tmp_path / "registry")

    def run(name: str, source: str, *options: str):
        path = tmp_path / name
        path.write_text(source)
        return fib("try", path, "--definition", "rmsnorm_d128", "--device", "cpu", "--root", registry.root, *options)

    return run


@pytest.mark.parametrize("option", ["--rtol", "--atol"])
@pytest.mark.parametrize("value", ["inf", "nan", "-1", "1e300", "4e38"])
def test_refuses_a_tolerance_that_tolerates_everything(try_, option, value):
    outcome = try_("nan.py", NAN, option, value)
    assert outcome.code == 2
    assert outcome.out == ""
    assert outcome.err.startswith(f"fib-rmsnorm: {option} {float(value)}: it must be") and outcome.err.count("\n") == 1


def test_nan_passes_by_no_tolerance(try_):
    outcome = try_("nan.py", NAN, "--atol", "3e38", "--rtol", "3e38", "--batch-sizes", "2")
    assert outcome.code == 1
    assert "nan.py FAILED: right on 0 of 1 workloads" in outcome.out


def test_a_tolerance_lets_pass_what_is_within(try_):
    off = RIGHT.replace("* weight.float()", "* weight.float() * 1.05")
    assert try_("off.py", off, "--batch-sizes", "2").code == 1
    assert try_("off.py", off, "--batch-sizes", "2", "--rtol", "0.1").code == 0
