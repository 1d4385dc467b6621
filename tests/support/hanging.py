"""A process that hangs as long as a test needs: what it prints ends its time, not a clock that others slow down."""

import os
from collections.abc import Callable
from typing import Any

import pytest

from fib_rmsnorm.sandbox.process import Process

FOR_EVER_S = 10**6
"""Longer than pytest lets a test run: what waits for it fails."""


def when_printed(patch: pytest.MonkeyPatch, words: str, left_s: Callable[[], float] = float) -> None:
    """Have requests to sandboxed processes know no time, until the one that is asked has printed `words`.

    Then `left_s` is called and tells the seconds that are left: by default none, so that the request times out.
    """
    request = Process.request

    def ask(process, message, _deadline, *others):
        deadline: Any = _Deadline(process._log.fileno(), words.encode(), left_s)
        return request(process, message, deadline, *others)

    patch.setattr(Process, "request", ask)


class _Deadline:
    def __init__(self, log: int, words: bytes, left_s: Callable[[], float]) -> None:
        self._log, self._words, self._left_s = log, words, left_s

    def __sub__(self, _now: float) -> float:
        printed = os.pread(self._log, os.fstat(self._log).st_size, 0)
        return self._left_s() if self._words in printed else FOR_EVER_S
