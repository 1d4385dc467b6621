"""A process that touches guarded memory ends by a signal; tensors whose pages a kernel has protected are refused."""

import ctypes
import faulthandler
import os
import signal
from collections.abc import Callable

import pytest
import torch

from fib_rmsnorm.evaluation.tensors.guarded_memory import copy_to_guarded, place_inputs, require_access
from fib_rmsnorm.evaluation.tensors.output_buffers import WrongOutputError

PAGE = os.sysconf("SC_PAGESIZE")
ROWS = torch.arange(3 * 4096, dtype=torch.float16).view(3, 4096)


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
    copy = copy_to_guarded(tensor, is_read_only=False)
    start, end = copy.data_ptr(), copy.data_ptr() + nbytes
    assert torch.equal(copy, tensor)
    assert start % 64 == 0
    assert end_of(lambda: (read(start), read(end - 1), copy.zero_())) == 0
    assert end_of(lambda: read(end)) == -signal.SIGSEGV
    assert end_of(lambda: read(start // PAGE * PAGE - 1)) == -signal.SIGSEGV


def test_an_end_that_is_not_aligned_is_followed_by_poison():
    copy = copy_to_guarded(torch.ones(3, 5), is_read_only=True)
    end = copy.data_ptr() + copy.nbytes
    assert end % 64 == 60
    assert bytes(read(end + index) for index in range(4)) == b"\xff" * 4
    assert end_of(lambda: read(end + 4)) == -signal.SIGSEGV


@pytest.mark.parametrize("is_guarded", [False, True])
def test_what_is_guarded_is_moved_and_all_is_copied(is_guarded):
    inputs = {"x": torch.ones(8), "weight": torch.ones(8, 2).T, "none": torch.empty(0), "eps": 1e-6}
    placed, before = place_inputs(inputs, is_guarded=is_guarded, is_read_only=True)
    assert [name for name, value in placed.items() if value is not inputs[name]] == ["x"] * is_guarded
    assert before.keys() == {"x", "weight", "none"}
    placed["weight"].zero_()
    assert before["weight"].sum() == 16
    assert end_of(placed["x"].zero_) == (-signal.SIGSEGV if is_guarded else 0)


def read_only() -> torch.Tensor:
    return copy_to_guarded(ROWS, is_read_only=True)


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
