from __future__ import annotations

import torch

from fib_rmsnorm.evaluation.worker import library_calls
from fib_rmsnorm.evaluation.worker.library_calls import LibraryCalls


def test_operators_that_work_are_named_and_those_that_only_move_tensors_are_not():
    x = torch.ones(4, 8)
    with LibraryCalls() as calls:
        out = torch.empty_like(x)
        out.copy_(x.view(-1).view(4, 8) * x.mean(dim=-1, keepdim=True))
    assert calls.names == ["aten::mean.dim", "aten::mul.Tensor"]


def test_the_first_call_does_not_wait_for_the_import_of_dynamo():
    """Torch wraps the method of other modes in a function of its own, which imports Dynamo when it is called first."""
    method = LibraryCalls.__dict__["__torch_dispatch__"]
    assert method.__code__.co_filename == library_calls.__file__
