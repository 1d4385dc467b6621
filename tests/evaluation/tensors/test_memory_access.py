"""Tensors whose pages a kernel has protected are refused, and no others."""

from __future__ import annotations

import pytest
import torch

from fib_rmsnorm.evaluation.tensors.guarded_memory import copy_to_guarded
from fib_rmsnorm.evaluation.tensors.memory_access import require_access
from fib_rmsnorm.evaluation.tensors.returned_outputs import WrongOutputError

ROWS = torch.arange(3 * 4096, dtype=torch.float16).view(3, 4096)


def read_only() -> torch.Tensor:
    return copy_to_guarded(ROWS, is_fenced=True, is_read_only=True)


def test_a_tensor_that_cannot_be_written_is_refused_only_for_writing():
    protected = read_only()
    require_access([protected], writing=False)
    with pytest.raises(WrongOutputError, match="changed the access"):
        require_access([ROWS, protected], writing=True)


@pytest.mark.parametrize("writing", [False, True])
def test_ordinary_tensors_are_left_as_they_are(writing):
    before = ROWS.clone()
    strided, empty, scalar, sparse = ROWS[::2, ::3], torch.empty(0), torch.tensor(3.0), ROWS.to_sparse()
    require_access([ROWS, strided, empty, scalar, sparse], writing=writing)
    assert torch.equal(ROWS, before)


def test_a_system_that_cannot_tell_refuses_nothing():
    require_access([read_only()], writing=True, is_known=False)
