"""What a worker looks at beside the judged calls: the outputs that a solution keeps, torch's operators, its threads."""

from __future__ import annotations

import pytest
import torch

from fib_rmsnorm.evaluation.worker import timed_calls
from fib_rmsnorm.evaluation.worker.call_outputs import KeptOutputs
from fib_rmsnorm.evaluation.worker.timed_calls import LibraryCalls
from fib_rmsnorm.evaluation.worker.worker_process import on_one_thread
from support.registries import RIGHT, make_registry

THREADS = RIGHT.replace(
    "    x_fp32 = x.float()\n",
    "    if torch.get_num_threads() != THREADS:\n        raise ValueError('other threads')\n"
    "    torch.set_num_threads(THREADS)\n    x_fp32 = x.float()\n",
    1,
).replace(
    "import torch\n", "import torch\n\nTHREADS = torch.get_num_threads() + 1\ntorch.set_num_threads(THREADS)\n", 1
)


def test_a_few_kept_outputs_are_ignored_but_many_are_found():
    kept_outputs = KeptOutputs()
    outputs = [torch.randn(4, 32) for _ in range(5)]
    for output in outputs:
        kept_outputs.remember([output])
    kept = [output.clone() for output in outputs]
    del outputs, output
    assert kept_outputs.find_kept() == 5
    del kept[2:]
    assert kept_outputs.find_kept() == 0


def test_outputs_of_equal_elements_are_ignored():
    kept_outputs = KeptOutputs()
    kept = [torch.full((4, 32), float(value)) for value in range(5)]
    for output in kept:
        kept_outputs.remember([output])
    assert kept_outputs.find_kept() == 0


def test_operators_that_work_are_named_and_those_that_only_move_tensors_are_not():
    x = torch.ones(4, 8)
    with LibraryCalls() as calls:
        out = torch.empty_like(x)
        out.copy_(x.view(-1).view(4, 8) * x.mean(dim=-1, keepdim=True))
    assert calls.names == ["aten::mean.dim", "aten::mul.Tensor"]


def test_the_first_call_does_not_wait_for_the_import_of_dynamo():
    """Torch wraps the method of other modes in a function of its own, which imports Dynamo when it is called first."""
    method = LibraryCalls.__dict__["__torch_dispatch__"]
    assert method.__code__.co_filename == timed_calls.__file__


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
