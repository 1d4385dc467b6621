"""The watch finds what a solution replaces of what it is measured with, and nothing else."""

from __future__ import annotations

import argparse
import builtins
import ctypes
import json
import json.encoder
import secrets
import socket
import sys
import time
from collections import deque
from functools import partial
from types import MethodType, SimpleNamespace

import pytest
import torch

from fib_rmsnorm.evaluation.tensors.output_buffers import OutputBuffers
from fib_rmsnorm.evaluation.timing.attribution import Piece
from fib_rmsnorm.evaluation.worker.caller import SolutionCaller
from fib_rmsnorm.evaluation.worker.tamper_check import TamperCheck
from fib_rmsnorm.operators import RmsNorm
from fib_rmsnorm.registry import generate_workloads


def holder(**attributes: object) -> OutputBuffers:
    """An object of the evaluator that holds this."""
    held = OutputBuffers.__new__(OutputBuffers)
    vars(held).update(attributes)
    return held


def solutions_work(*_: object) -> None:
    """Of a module that was not there when the watch was armed."""


solutions_work.__module__ = "solution"


def armed(*objects: object) -> TamperCheck:
    watch = TamperCheck()
    watch.arm(*objects)
    return watch


class TestTamperCheck:
    def test_nothing_is_found_where_nothing_is_replaced(self, monkeypatch):
        watch = armed()
        monkeypatch.setattr(torch.Tensor, "rms", lambda x: x, raising=False)
        monkeypatch.setattr(builtins, "print", lambda *_: None)
        assert watch.replaced() == []

    def test_replaced_functions_are_found_by_name(self, monkeypatch):
        watch = armed()
        monkeypatch.setattr(torch, "equal", lambda *_: True)
        monkeypatch.setattr(SolutionCaller, "bind", lambda *_: None)
        found = watch.replaced()
        assert "torch.equal" in found
        assert "fib_rmsnorm.evaluation.worker.caller.SolutionCaller.bind" in found

    def test_what_was_added_and_hides_a_builtin_is_found(self, monkeypatch):
        watch = armed()
        monkeypatch.setattr("fib_rmsnorm.evaluation.worker.caller.zip", lambda *_, **__: [], raising=False)
        assert watch.replaced() == ["fib_rmsnorm.evaluation.worker.caller.zip"]

    def test_another_class_is_found_in_what_an_object_holds(self):
        class Mine(OutputBuffers):
            pass

        definition = RmsNorm().define(128)
        buffers = OutputBuffers(definition, generate_workloads(definition, [2])[0], "cpu")
        watch = armed(buffers)
        buffers.next = [buffers.tensors, {"other": OutputBuffers.__new__(Mine)}]
        assert watch.replaced() == ["dict.other by Mine"]

    @pytest.mark.parametrize("hook", ["settrace", "setprofile"])
    def test_a_hook_is_found(self, hook):
        watch = armed()
        before = getattr(sys, hook.replace("set", "get"))()
        getattr(sys, hook)(lambda *_: None)
        try:
            found = watch.replaced()
        finally:
            getattr(sys, hook)(before)
        assert found == [f"sys.{hook}"]

    def test_a_method_of_an_objects_own_is_found(self):
        other = armed()
        watch = armed(other)
        other.replaced = list
        assert watch.replaced() == ["TamperCheck.replaced"]

    @pytest.mark.parametrize(
        "other",
        [int, partial(int, 0), [].append, ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 0), SimpleNamespace(), None],
        ids=["builtin", "partial", "bound method", "C callback", "namespace", "nothing"],
    )
    def test_what_an_object_works_with_is_found_if_it_is_another(self, other):
        timer = holder(clock=time.perf_counter, inner=holder(handlers={"call": len}), bound=self.holds)
        watch = armed(timer)
        assert watch.replaced() == []
        timer.clock = timer.bound = timer.inner.handlers["call"] = other
        names = ["OutputBuffers.inner.handlers.call", "OutputBuffers.bound", "OutputBuffers.clock"]
        assert sorted(name for name in watch.replaced() if " by " not in name) == sorted(names)

    def holds(self):
        """A method that is bound once."""

    def test_what_an_object_works_with_is_found_by_its_code(self):
        def call():
            return 0

        watch = armed(holder(call=call))
        call.__code__ = (lambda: 1).__code__
        assert watch.replaced() == ["OutputBuffers.call"]

    @pytest.mark.parametrize(
        ("key", "value"),
        [("errcheck", lambda *_: 0), ("restype", lambda _: 0), ("argtypes", [ctypes.c_void_p])],
    )
    def test_what_ctypes_runs_with_a_c_function_is_found(self, key, value):
        function = ctypes.CDLL(None).getpid
        watch = armed(holder(read=function))
        assert watch.replaced() == []
        setattr(function, key, value)
        assert watch.replaced() == [f"OutputBuffers.read.{key}"]

    def test_a_c_function_that_leads_elsewhere_is_found(self):
        library = ctypes.CDLL(None)
        watch = armed(holder(read=library.getpid))
        pointer, other = (ctypes.c_void_p.from_buffer(one) for one in (library.getpid, library.getppid))
        pointer.value = other.value
        assert watch.replaced() == ["OutputBuffers.read"]

    @pytest.mark.parametrize("lies", [False, True])
    def test_a_function_is_found_whatever_it_says_of_itself(self, lies):
        def work(_):
            """Says that it is of a module which was there when the watch was armed, or of one which was not."""

        work.__module__ = "json" if lies else "solution"
        stage = holder(inputs=None)
        watch = armed(stage)
        stage.inputs = partial(work)
        assert watch.replaced() == [f"partial.0 by {work.__qualname__}"]

    @pytest.mark.parametrize(
        "stand_in",
        [
            MethodType(len, []),
            SimpleNamespace(set=len),
            argparse.Namespace(set=len),
            ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 0),
            type("Ring", (dict,), {"__module__": "solution"})(),
            type("Ring", (deque,), {"__module__": "collections"})(),
            type("Array", (ctypes.c_uint64 * 4,), {})(),
        ],
        ids=lambda stand_in: type(stand_in).__name__,
    )
    def test_what_may_have_code_is_found_in_an_object_that_was_made_later(self, stand_in):
        worker = holder(stage=None)
        watch = armed(worker)
        worker.stage = holder(inputs=stand_in)
        assert watch.replaced() == [f"OutputBuffers.inputs by {type(stand_in).__name__}"]

    def test_another_class_is_found_in_what_was_there(self):
        inner = holder()
        watch = armed(holder(inner=inner))
        inner.__class__ = type("OutputBuffers", (OutputBuffers,), {"__module__": OutputBuffers.__module__})
        assert watch.replaced() == ["OutputBuffers.inner by OutputBuffers"]

    def test_state_may_change(self):
        recorder = holder(pieces=[Piece(1, 2, 3)], stage=None, buffers={1: (ctypes.c_uint64 * 4)()}, marks=set())
        watch = armed(recorder)
        recorder.pieces, recorder.marks = [], {1}
        recorder.stage = holder(pieces=[Piece(4, 5, 6)], make=partial(OutputBuffers, recorder.pieces))
        recorder.buffers[1] = (ctypes.c_uint64 * 4)()
        recorder.buffers[2] = recorder.buffers[1]
        assert watch.replaced() == []

    def test_what_the_solution_made_is_its_own_but_not_what_holds_it(self):
        stage = holder(_returned=deque())
        watch = armed(stage)
        stage._returned.append(SimpleNamespace())
        stage._entry = solutions_work
        assert watch.replaced() == []
        stage._returned = type("Answers", (deque,), {})()
        assert watch.replaced() == ["OutputBuffers._returned by Answers"]


class TestWhatIsNotOurs:
    def test_whatever_our_code_uses_is_watched(self, monkeypatch):
        watch = armed()
        monkeypatch.setattr(builtins, "dict", type("dict", (dict,), {}))
        monkeypatch.setattr(torch._C, "_len_torch_dispatch_stack", lambda: 0)
        assert watch.replaced() == ["builtins.dict", "torch._C._len_torch_dispatch_stack"]

    @pytest.mark.parametrize(
        ("owner", "key", "name"),
        [
            (json.JSONEncoder, "encode", "json.JSONEncoder.encode"),
            (json.encoder, "isinstance", "json.encoder.isinstance"),
            (secrets._sysrand, "getrandbits", "secrets._sysrand.getrandbits"),
            (socket.socket, "sendall", "socket.socket.sendall"),
            (torch.Tensor, "device", "torch.Tensor.device"),
            (torch.Tensor, "__del__", "torch.Tensor.__del__"),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_it_is_found_if_it_is_replaced_or_hidden(self, monkeypatch, owner, key, name):
        watch = armed()
        monkeypatch.setattr(owner, key, lambda *_: None, raising=False)
        assert watch.replaced() == [name]

    def test_another_default_is_found(self, monkeypatch):
        watch = armed()
        monkeypatch.setitem(json.dumps.__kwdefaults__, "cls", json.JSONEncoder)
        assert watch.replaced() == ["json.dumps.cls"]

    def test_another_kernel_is_found_however_it_came(self):
        watch = armed()
        assert watch.replaced_kernels() == []
        library = torch._C._dispatch_library("IMPL", "aten", "CPU", "", 0)
        library.impl("clone", "CPU", lambda tensor, memory_format=None: tensor)
        assert watch.replaced_kernels() == ["aten::clone"]
        library.reset()
        assert watch.replaced_kernels() == []
