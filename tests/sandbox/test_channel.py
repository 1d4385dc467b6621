"""A process checks itself before it answers."""

from __future__ import annotations

import socket
import threading
from contextlib import closing
from types import SimpleNamespace

import torch

from fib_rmsnorm.sandbox.channel import Channel, RefusalError, serve


def ask(requests, handlers, *check):
    """The answers of a process that is asked for these, one after the other."""
    mine, its = socket.socketpair()
    process = threading.Thread(target=serve, args=(Channel(its.detach()), handlers, *check))
    process.start()
    answers = []
    with closing(Channel(mine.detach())) as other:
        for name in requests:
            other.send({"do": name})
            answers.append(other.receive())
    process.join()
    return answers


def test_a_device_without_memory_is_one_line():
    said = "CUDA out of memory. Tried to allocate 4.58 GiB. GPU 0 has a total capacity of 79.18 GiB. Of the allocated"

    def compute(_):
        raise torch.OutOfMemoryError(said)

    (answer,) = ask(["compute"], {"compute": compute})
    assert answer["message"] == "CUDA out of memory. Tried to allocate 4.58 GiB: choose smaller batch sizes"


def test_each_answer_follows_a_check_which_may_be_the_answer():
    found: list = []

    def check():
        if found:
            raise RefusalError("RUNTIME_ERROR", found.pop(), fatal=True, is_cheat=True)

    def spoil(_):
        found.append("spoilt")
        return SimpleNamespace()

    answers = ask(["time", "spoil", "time"], {"time": lambda _: SimpleNamespace(ms=1.0), "spoil": spoil}, check)
    refusal = {"ok": False, "status": "RUNTIME_ERROR", "message": "spoilt", "fatal": True, "is_cheat": True}
    assert answers == [{"ok": True, "ms": 1.0}, refusal, {"ok": True, "ms": 1.0}]
