"""The tamper check finds the code that a solution replaces in what measures it, and nothing else.

What the wrong kernels in tests/wrong_kernels/tamper_check/ replace is not repeated here.
"""

import argparse
import builtins
import ctypes
import sys
import time
from collections import deque
from functools import partial
from types import MethodType, SimpleNamespace
from typing import Any

import pytest
import torch

from fib_rmsnorm.evaluation.tensors.output_buffers import OutputBuffers
from fib_rmsnorm.evaluation.timing.kernel_records import Piece
from fib_rmsnorm.evaluation.worker.tamper_check import _OF_OTHERS, TamperCheck
from fib_rmsnorm.operators import RmsNorm
from support.command_line import run_python
from support.norms import on_device


def holder(**attributes: object) -> Any:
    """An object of the evaluator with these attributes."""
    held = OutputBuffers.__new__(OutputBuffers)
    vars(held).update(attributes)
    return held


def solutions_work(*_: object) -> None:
    """A function of a module that was not there when the check was armed."""


solutions_work.__module__ = "solution"


def lies(*_: object) -> None:
    """A function that says it is of the standard library."""


lies.__module__ = "types"


def armed(*objects: object) -> TamperCheck:
    check = TamperCheck()
    check.arm(*objects)
    return check


@pytest.mark.process
def test_what_it_leaves_out_is_imported_by_nothing_that_a_worker_runs():
    code = "import sys\nimport fib_rmsnorm.evaluation.worker.worker_process\nprint(*sys.modules)"
    loaded = run_python("-c", code).split()
    assert "fib_rmsnorm.evaluation.worker.caller" in loaded
    assert not [name for name in loaded if name.startswith(_OF_OTHERS)]


class TestTamperCheck:
    def test_harmless_changes_are_not_reported(self, monkeypatch):
        check = armed()
        monkeypatch.setattr(torch.Tensor, "rms", lambda x: x, raising=False)
        monkeypatch.setattr(builtins, "print", lambda *_: None)
        assert check.replaced() == []

    @pytest.mark.parametrize(
        "name",
        [
            *("torch.cuda.CUDAGraph.replay", "torch.cuda.Event.elapsed_time", "json.JSONEncoder.encode"),
            # Added names, which shadow others or are called by Python itself.
            *("fib_rmsnorm.evaluation.tensors.output_buffers.zip", "json.encoder.isinstance"),
            *("secrets._sysrand._randbelow", "torch.Tensor.__del__"),
        ],
    )
    def test_a_replaced_or_added_name_is_found(self, monkeypatch, name):
        check = armed()
        monkeypatch.setattr(name, lambda *_, **__: [], raising=False)
        assert check.replaced() == [name]

    def test_a_subclass_in_a_held_container_is_found(self):
        class Mine(OutputBuffers):
            pass

        buffers: Any = OutputBuffers(on_device(RmsNorm().define(128), 2))
        check = armed(buffers)
        buffers.next = [buffers.tensors, {"other": OutputBuffers.__new__(Mine)}]
        assert check.replaced() == ["dict.other by Mine"]
        inner = holder()
        check = armed(holder(inner=inner))
        inner.__class__ = Mine
        assert check.replaced() == ["OutputBuffers.inner by Mine"]

    @pytest.mark.parametrize("hook", ["settrace", "setprofile"])
    def test_a_hook_is_found(self, hook):
        check = armed()
        before = getattr(sys, hook.replace("set", "get"))()
        getattr(sys, hook)(lambda *_: None)
        try:
            found = check.replaced()
        finally:
            getattr(sys, hook)(before)
        assert found == [f"sys.{hook}"]

    @pytest.mark.parametrize(
        "other",
        [int, partial(int, 0), [].append, ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 0), SimpleNamespace(), None],
        ids=["builtin", "partial", "bound method", "C callback", "namespace", "nothing"],
    )
    def test_a_replaced_attribute_is_found(self, other):
        timer = holder(clock=time.perf_counter, inner=holder(handlers={"call": len}), bound=self.holds)
        check = armed(timer)
        assert check.replaced() == []
        timer.clock = timer.bound = timer.inner.handlers["call"] = other
        names = ["OutputBuffers.inner.handlers.call", "OutputBuffers.bound", "OutputBuffers.clock"]
        assert sorted(name for name in check.replaced() if " by " not in name) == sorted(names)

    def holds(self):
        """A method that is bound once."""

    def test_replaced_code_of_a_held_function_is_found(self):
        def call():
            return 0

        check = armed(holder(call=call))
        call.__code__ = (lambda: 1).__code__
        assert check.replaced() == ["OutputBuffers.call"]

    def test_another_function_in_a_held_partial_is_found(self):
        handler: Any = partial(len)
        check = armed(holder(handlers={"call": handler}))
        handler.__setstate__((lies, (), {}, {}))
        assert check.replaced() == ["partial.0 by lies"]

    @pytest.mark.parametrize(
        ("key", "value"), [("errcheck", lambda *_: 0), ("restype", lambda _: 0), ("argtypes", [ctypes.c_void_p])]
    )
    def test_python_code_added_to_a_c_function_is_found(self, key, value):
        function = ctypes.CDLL(None).getpid
        check = armed(holder(read=function))
        assert check.replaced() == []
        setattr(function, key, value)
        assert check.replaced() == [f"OutputBuffers.read.{key}"]

    def test_a_c_function_with_another_address_is_found(self):
        library = ctypes.CDLL(None)
        check = armed(holder(read=library.getpid))
        pointer, other = (ctypes.c_void_p.from_buffer(one) for one in (library.getpid, library.getppid))
        pointer.value = other.value
        assert check.replaced() == ["OutputBuffers.read"]

    @pytest.mark.parametrize(
        "stand_in",
        [
            MethodType(len, []),
            SimpleNamespace(set=lies),
            argparse.Namespace(set=lies),
            type("Ring", (dict,), {"__module__": "solution"})(),
            type("Ring", (deque,), {"__module__": "collections"})(),
            type("Array", (ctypes.c_uint64 * 4,), {})(),
        ],
        ids=lambda stand_in: type(stand_in).__name__,
    )
    def test_code_in_an_object_that_was_made_later_is_found(self, stand_in):
        worker = holder(timing=None)
        check = armed(worker)
        worker.timing = holder(inputs=stand_in)
        assert check.replaced() == [f"OutputBuffers.inputs by {type(stand_in).__name__}"]

    def test_state_may_change(self):
        recorder = holder(pieces=[Piece(1, 2, 3)], timing=None, buffers={1: (ctypes.c_uint64 * 4)()}, marks=set())
        check = armed(recorder)
        recorder.pieces, recorder.marks = [], {1}
        recorder.timing = holder(pieces=[Piece(4, 5, 6)], make=partial(OutputBuffers, recorder.pieces))
        recorder.buffers[1] = (ctypes.c_uint64 * 4)()
        recorder.buffers[2] = recorder.buffers[1]
        assert check.replaced() == []

    def test_objects_of_the_solution_are_ignored_but_not_their_container(self):
        timed_calls = holder(_returned=deque())
        check = armed(timed_calls)
        timed_calls._returned.append(SimpleNamespace())
        timed_calls._entry = solutions_work
        assert check.replaced() == []
        timed_calls._returned = type("Answers", (deque,), {})()
        assert check.replaced() == ["OutputBuffers._returned by Answers"]
