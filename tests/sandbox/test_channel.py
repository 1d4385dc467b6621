"""A process checks what sends its answer first, and tells what it finds behind it with its next answer."""

from __future__ import annotations

import socket
import threading
from types import SimpleNamespace

import pytest

from fib_rmsnorm.sandbox.channel import Channel, RefusalError, serve


class Checked:
    """A process with checks that fail once it has been spoilt. It counts how often the thorough one ran."""

    def __init__(self) -> None:
        self.is_spoilt = self.is_openly_spoilt = False
        self.checks = 0
        mine, its = socket.socketpair()
        self.other = Channel(mine.detach())
        channel = Channel(its.detach())
        handlers = {"time": self.handle, "end": self.handle, "spoil": self.spoil}
        self._thread = threading.Thread(
            target=serve, args=(channel, handlers, self.check, {"time": self.check_quickly})
        )
        self._thread.start()

    def handle(self, _):
        return SimpleNamespace(checks=self.checks)

    def spoil(self, _):
        self.is_spoilt = True
        return SimpleNamespace()

    def check(self):
        self.checks += 1
        if self.is_spoilt:
            raise RefusalError("RUNTIME_ERROR", f"spoilt, in check {self.checks}", fatal=True)

    def check_quickly(self):
        if self.is_openly_spoilt:
            raise RefusalError("RUNTIME_ERROR", "openly spoilt", fatal=True)

    def ask(self, what):
        self.other.send({"do": what})
        return self.other.receive()

    def end(self):
        self.other.close()
        self._thread.join()


@pytest.fixture
def process():
    process = Checked()
    yield process
    process.end()


def test_every_request_is_checked_whichever_comes_first(process):
    assert [process.ask(what)["checks"] for what in ("time", "time", "end", "end")] == [0, 1, 2, 3]


def test_what_a_late_check_finds_is_the_answer_to_whatever_is_asked_next(process):
    process.is_spoilt = True
    assert process.ask("time")["ok"]
    for what in ("time", "end", "end"):
        answer = process.ask(what)
        assert (answer["ok"], answer["fatal"], answer["message"]) == (False, True, "spoilt, in check 1")


def test_what_a_quick_check_finds_is_the_answer_itself(process):
    process.is_openly_spoilt = True
    assert process.ask("time")["message"] == "openly spoilt"
    assert process.ask("end")["ok"]


def test_other_requests_are_answered_after_their_check(process):
    assert process.ask("spoil") == {
        "ok": False,
        "status": "RUNTIME_ERROR",
        "message": "spoilt, in check 1",
        "fatal": True,
    }
