"""Start the processes of a run from a fork server that imports torch once, and leave none of them behind."""

import contextlib
import functools
import os
import socket
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import ClassVar

import psutil

from fib_rmsnorm.errors import FibRmsnormError
from fib_rmsnorm.sandbox import Role
from fib_rmsnorm.sandbox.channel import Channel, Message
from fib_rmsnorm.sandbox.confinement.libc import adopt_orphans
from fib_rmsnorm.sandbox.confinement.readable import keep_harmless
from fib_rmsnorm.sandbox.fork_server_process import (
    RUN_VARIABLE,
    is_marked,
    kill_children,
    make_private_folder,
    python_command,
    remove_private_folder,
)
from fib_rmsnorm.sandbox.log import Log
from fib_rmsnorm.sandbox.process import Process, StoppedError

_ATTEMPTS, _BETWEEN_ATTEMPTS_S = 20, 0.1


class ForkServer(contextlib.AbstractContextManager["ForkServer"]):
    """Starts the processes of a run. Closing it ends them all."""

    _open: ClassVar[set["ForkServer"]] = set()
    """All of this process, as of several sessions: their processes are its children alike."""

    def __init__(self, roles: Sequence[Role], defaults: Mapping[str, str] | None = None) -> None:
        """`defaults` are variables for all processes of the run; the user's environment overrides them.

        Of that, the processes get what compilers, GPUs and libraries read, and no secrets.
        """
        self._adopting = contextlib.ExitStack()
        self._adopting.enter_context(adopt_orphans())
        self._folder = make_private_folder()
        """For the temporary folders of the processes."""
        self._adopting.callback(remove_private_folder, self._folder)
        self.run = uuid.uuid4().hex
        """The run's id, which every process of the run has in its environment."""
        self._lock = threading.Lock()
        self._alive: dict[int, Process] = {}
        self._stopping = threading.Event()
        ours, theirs = socket.socketpair()
        self._channel = Channel(ours.detach())
        self._asking = threading.Lock()
        """Threads take turns to ask the fork server."""
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - open while the fork server runs
        self._process = subprocess.Popen(
            python_command(
                "fib_rmsnorm.sandbox.fork_server_process",
                *(theirs.fileno(), os.getpid(), self._folder),
                *(role.module for role in roles),
            ),
            pass_fds=[theirs.fileno()],
            env={**(defaults or {}), **keep_harmless(os.environ), RUN_VARIABLE: self.run},
            stdin=subprocess.DEVNULL,
            stdout=self._errors,
            stderr=self._errors,
            start_new_session=True,
        )
        theirs.close()
        self._open.add(self)

    def spawn(
        self,
        role: Role,
        environment: dict[str, str] | None = None,
        *,
        readable: Sequence[Path] = (),
        writable: Sequence[Path] = (),
    ) -> Process:
        """Start a process of a role, with variables added to its environment.

        It writes to the folders of `writable` and to a temporary folder of its own alone, which is its home and is
        removed when it has ended. It reads these, `readable`, and what Python and the system consist of.
        Raises FibRmsnormError with the fork server's last line of output if it cannot start.
        """
        if self._stopping.is_set():
            raise StoppedError
        Path(self._folder).mkdir(mode=0o700, exist_ok=True)  # many systems remove what nobody used for days
        temporary = make_private_folder(self._folder)
        try:
            request = {
                **asdict(role),
                "environment": {**(environment or {}), "TMPDIR": temporary, "HOME": temporary},
                "readable": [*map(str, readable)],
                "writable": [temporary, *map(str, writable)],
            }
            for _ in range(_ATTEMPTS):
                if process := self._spawn(request, temporary):
                    return process
                # Another may have taken all that its user may have.
                for other in self._find_alive():
                    other.kill_if_excessive()
                time.sleep(_BETWEEN_ATTEMPTS_S)
            raise FibRmsnormError("cannot start worker processes: you have as many as you may have (ulimit -u)")
        except BaseException:
            remove_private_folder(temporary)
            raise

    def _find_alive(self) -> list[Process]:
        with self._lock:
            return list(self._alive.values())

    def _spawn(self, request: Message, temporary: str) -> Process | None:
        """Start a process; None if its user may have no more."""
        ours, theirs = socket.socketpair()
        with self._asking, theirs, contextlib.ExitStack() as unowned:
            unowned.enter_context(ours)
            log = unowned.enter_context(contextlib.closing(Log()))
            outputs_file = unowned.enter_context(os.fdopen(os.memfd_create("fib-rmsnorm-outputs"), "r+b", buffering=0))
            if self._stopping.is_set():
                raise StoppedError
            pid = None
            with contextlib.suppress(EOFError, OSError):  # it has died
                self._channel.send(request, [theirs.fileno(), log.fileno(), outputs_file.fileno()])
                pid = self._channel.receive()["pid"]
            if self._stopping.is_set():
                raise StoppedError
            if pid is None:
                self._errors.seek(0)
                lines = self._errors.read().decode(errors="replace").strip().splitlines()
                why = lines[-1] if lines else "the fork server died without a message"
                raise FibRmsnormError(f"cannot start worker processes: {why}")
            if pid == 0:
                return None
            forget = functools.partial(self._forget, pid, temporary)
            process = Process(pid, Channel(ours.detach()), log, outputs_file, self._stopping, forget)
            with self._lock:
                self._alive[pid] = process
            unowned.pop_all()  # the process closes them
        return process

    def _forget(self, pid: int, temporary: str) -> None:
        """Remove a process that has ended from the list, with all that it left: processes and temporary files."""
        with self._lock:
            self._alive.pop(pid, None)
        self.kill_escaped()
        remove_private_folder(temporary)

    def kill_escaped(self) -> None:
        """Kill orphaned descendants of workers, which are our children now."""
        kill_children(self._has_escaped)

    def _has_escaped(self, pid: int) -> bool:
        """Whether a child of this process descends from a worker of this run, and is not one.

        It has the run's id or, if it cleared its environment, a worker's mark and a session that is not ours, nor of
        another run of this process.
        """
        with self._asking, self._lock:  # a child that was just started is not in the list yet
            if pid in self._alive or pid == self._process.pid:
                return False
        session = os.getsid(pid)
        if self._has(pid, session):
            return True
        if any(other._has(pid, session) for other in self._open - {self}):
            return False
        return session != os.getsid(0) and is_marked(pid)

    def _has(self, pid: int, session: int) -> bool:
        """Whether a process of this session is of this run."""
        if pid in self._alive or session in self._alive:
            return True
        with contextlib.suppress(psutil.Error):  # it may have made its environment unreadable
            return bool(psutil.Process(pid).environ().get(RUN_VARIABLE) == self.run)
        return False

    def stop(self) -> None:
        """Kill every process of this run, and let no other start."""
        self._stopping.set()
        # The fork server first: while it imports torch, a spawn waits for it and holds a lock that we need.
        self._process.kill()
        self._process.wait()
        with self._asking:
            processes = self._find_alive()
        for process in processes:
            process.signal_kill()  # all before waiting for any: a process that holds a GPU takes 0.1 s to die
        for process in processes:
            process.kill()
        self.kill_escaped()

    def close(self) -> None:
        """Kill every process of this run and close the connection to the fork server."""
        self.stop()
        self._channel.close()
        self._errors.close()
        self._open.discard(self)
        self._adopting.close()

    def __exit__(self, *_: object) -> None:
        self.close()
