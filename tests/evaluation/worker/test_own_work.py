"""The worker's own work takes one thread; a solution has all, or as many as it has set."""

from __future__ import annotations

import pytest
import torch

from fib_rmsnorm.evaluation.worker.own_work import on_one_thread
from support.registries import RIGHT, make_registry

THREADS = RIGHT.replace(
    "    x_fp32 = x.float()\n",
    "    if torch.get_num_threads() != THREADS:\n        raise ValueError('other threads')\n"
    "    torch.set_num_threads(THREADS)\n    x_fp32 = x.float()\n",
    1,
).replace(
    "import torch\n", "import torch\n\nTHREADS = torch.get_num_threads() + 1\ntorch.set_num_threads(THREADS)\n", 1
)


def test_one_thread_inside_and_as_many_as_before_outside():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with pytest.raises(ValueError, match="fails"), on_one_thread("cpu"):
            assert torch.get_num_threads() == 1
            raise ValueError("fails")
        assert torch.get_num_threads() == 3
        with on_one_thread("cuda:0"):  # its host code is not timed apart, and stays as it is
            assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


@pytest.mark.process
def test_a_solution_keeps_the_threads_that_it_has_set(fib, tmp_path):
    registry = make_registry(tmp_path / "registry")
    (tmp_path / "threads.py").write_text(THREADS)
    options = ("--definition", "rmsnorm_d128", "--device", "cpu", "--root", registry.root, "--batch-sizes", "2")
    outcome = fib("try", tmp_path / "threads.py", *options)
    assert outcome.code == 0, outcome.out
