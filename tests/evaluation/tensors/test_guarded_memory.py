"""A process that writes to a guarded input, or reads beyond it, ends by a signal; one that reads the input does not."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
from collections.abc import Callable

import pytest
import torch

from fib_rmsnorm.evaluation.tensors.guarded_memory import copy_to_guarded, place_inputs

PAGE = os.sysconf("SC_PAGESIZE")


def end_of(act: Callable[[], object]) -> int:
    """How a child ends that does this: 0, or the signal as a negative number."""
    child = os.fork()
    if child == 0:
        faulthandler.disable()
        act()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def read(address: int) -> int:
    return ctypes.c_ubyte.from_address(address).value


@pytest.mark.parametrize("nbytes", [64, 4032, PAGE, PAGE + 64, 3 * PAGE])
def test_nothing_lies_before_and_behind_a_fenced_tensor(nbytes):
    tensor = torch.arange(nbytes // 2, dtype=torch.int16)
    copy = copy_to_guarded(tensor, is_fenced=True, is_read_only=False)
    start, end = copy.data_ptr(), copy.data_ptr() + nbytes
    assert torch.equal(copy, tensor)
    assert start % 64 == 0
    assert end_of(lambda: (read(start), read(end - 1), copy.zero_())) == 0
    assert end_of(lambda: read(end)) == -signal.SIGSEGV
    assert end_of(lambda: read(start // PAGE * PAGE - 1)) == -signal.SIGSEGV


def test_an_end_that_is_not_aligned_is_followed_by_poison():
    copy = copy_to_guarded(torch.ones(3, 5), is_fenced=True, is_read_only=True)
    end = copy.data_ptr() + copy.nbytes
    assert end % 64 == 60
    assert bytes(read(end + index) for index in range(4)) == b"\xff" * 4
    assert end_of(lambda: read(end + 4)) == -signal.SIGSEGV


def test_a_read_only_tensor_is_read_and_not_written():
    copy = copy_to_guarded(torch.ones(1000), is_fenced=False, is_read_only=True)
    assert end_of(lambda: copy.sum().item()) == 0
    assert end_of(copy.neg_) == -signal.SIGSEGV
    assert end_of(lambda: read(copy.data_ptr() + copy.nbytes)) == 0


def test_only_the_named_inputs_are_moved_and_all_are_copied():
    inputs = {"x": torch.ones(8), "weight": torch.ones(8), "none": torch.empty(0), "eps": 1e-6}
    placed, before = place_inputs(inputs, ["x", "none"], ["x"])
    assert {name for name, value in placed.items() if value is not inputs[name]} == {"x"}
    assert before.keys() == {"x", "weight", "none"}
    placed["weight"].zero_()
    assert before["weight"].sum() == 8
    assert end_of(placed["x"].zero_) == -signal.SIGSEGV
