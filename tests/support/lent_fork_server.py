"""One fork server for many commands: each test that runs one would import torch anew, for most of its time."""

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from functools import cache
from typing import Any

import pytest

from fib_rmsnorm.evaluation import ROLES
from fib_rmsnorm.inspection import COMPILER
from fib_rmsnorm.sandbox import Role
from fib_rmsnorm.sandbox.confinement.libc import adopt_orphans
from fib_rmsnorm.sandbox.confinement.readable import keep_harmless
from fib_rmsnorm.sandbox.fork_server import ForkServer
from fib_rmsnorm.sandbox.process import Process, StoppedError
from support.paths import REPOSITORY

USERS = (
    "fib_rmsnorm.evaluation.bench",
    "fib_rmsnorm.evaluation.head_to_head",
    "fib_rmsnorm.sandbox.fork_server",
    "fib_rmsnorm.sessions.service",
    "fib_rmsnorm.tuning.sweep",
)
"""The modules whose ForkServer a command starts."""
_variables: dict[str, str] = {}
"""Those of the fork server: of the test that is the first to need it, nothing may stay."""


class LentForkServer(ForkServer):
    """A run whose processes another fork server starts. Closing it ends these, and not the fork server."""

    def __init__(self, roles: Sequence[Role], defaults: Mapping[str, str] | None = None) -> None:
        assert {*roles} <= {*ROLES, COMPILER}
        self._lender = _lender()
        self.run = self._lender.run
        self._defaults = dict(defaults or {})
        self._ended = threading.Event()
        self._while_open = ExitStack()
        self._while_open.enter_context(adopt_orphans())
        self._started: list[Process] = []

    def spawn(self, role: Role, environment: dict[str, str] | None = None, **options: Any) -> Process:
        if self._ended.is_set():
            raise StoppedError
        variables = {**self._defaults, **keep_harmless(os.environ), **(environment or {})}
        process = self._lender.spawn(role, variables, **options)
        process._stopping = self._ended
        self._started.append(process)
        if self._ended.is_set():
            process.kill()
            raise StoppedError
        return process

    def kill_escaped(self) -> None:
        self._lender.kill_escaped()

    def stop(self) -> None:
        self._ended.set()
        for process in self._started:
            process.signal_kill()
        for process in self._started:
            process.kill()
        self.kill_escaped()

    def close(self) -> None:
        self.stop()
        self._while_open.close()


@cache
def _lender() -> ForkServer:
    """The one that lends. Between the tests that borrow, this process adopts no orphans.

    Some tests look for those that are left, and nobody would wait for them.
    """
    with pytest.MonkeyPatch.context() as patch, adopt_orphans():
        patch.setattr("fib_rmsnorm.sandbox.fork_server.adopt_orphans", nullcontext)
        patch.chdir(REPOSITORY)
        for name in os.environ.keys() - _variables.keys():
            patch.delenv(name)
        for name, value in _variables.items():
            patch.setenv(name, value)
        return ForkServer((*ROLES, COMPILER))


@contextmanager
def lending() -> Iterator[None]:
    """End the fork server after the tests, if one has needed it; its variables are those of before them."""
    _variables.update(os.environ)
    yield
    if _lender.cache_info().currsize:
        _lender().close()
        _lender.cache_clear()


def lend(patch: pytest.MonkeyPatch) -> None:
    """Have the commands of a test borrow their processes."""
    for name in USERS:
        patch.setattr(f"{name}.ForkServer", LentForkServer)
