"""Processes from the scheduler's side: start them, ask them, and be rid of them whatever they do."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from io import FileIO
from multiprocessing.connection import wait

import psutil

from fib_rmsnorm.errors import FibRmsnormError
from fib_rmsnorm.evaluation.channel import Channel, Message
from fib_rmsnorm.evaluation.log import Log
from fib_rmsnorm.evaluation.zygote import become_subreaper, is_marked

_RUN_VARIABLE = "FIB_RMSNORM_RUN"
# With our own path: `-m` would put the working folder first, where a kernel's author may well keep a triton.py.
_START = """\
import os, sys
sys.path[:] = sys.argv[1].split(os.pathsep)
from fib_rmsnorm.evaluation.zygote import main
main(int(sys.argv[2]), int(sys.argv[3]))
"""
_POLL_S = 0.2
_DYING_S = 0.1  # a dying process closes its channel a moment before its end can be seen


class ProcessDiedError(Exception):
    """The process ended before it answered; the message says how, with the signal's name."""


class ProcessTimeoutError(Exception):
    """The process did not answer in time and was killed."""


class ProcessGreedyError(Exception):
    """The process took more memory than it may and was killed."""


class StoppedError(Exception):
    """The run is being stopped."""


class Zygote:
    """The source of worker and judge processes; closing it ends them all."""

    def __init__(self) -> None:
        become_subreaper()
        self.run = uuid.uuid4().hex
        """The run's id: every process of the run has it in its environment."""
        self._lock = threading.Lock()
        self._alive: dict[int, Process] = {}
        self.escaped_sessions: set[int] = set()
        """Of killed processes that had escaped: mostly the pid of the worker that they came from."""
        self.stopping = threading.Event()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - open for the zygote's life
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START, os.pathsep.join(sys.path), str(theirs.fileno()), str(os.getpid())],
            pass_fds=[theirs.fileno()],
            env={**os.environ, _RUN_VARIABLE: self.run},
            stdin=subprocess.DEVNULL,
            stdout=self._errors,
            stderr=self._errors,
            start_new_session=True,
        )
        theirs.close()

    def spawn(self, role: str, environment: dict[str, str] | None = None) -> Process:
        """Start a `worker` or `judge` with variables added to its environment.

        Raises FibRmsnormError with the zygote's last words if it could not start.
        """
        ours, theirs = socket.socketpair()
        log = Log()
        handover = os.fdopen(os.memfd_create("fib-rmsnorm-outputs"), "r+b", buffering=0)
        request = json.dumps({"role": role, "environment": environment or {}}).encode()
        with self._lock, theirs:
            if self.stopping.is_set():
                raise StoppedError
            try:
                socket.send_fds(self._socket, [request], [theirs.fileno(), log.fileno(), handover.fileno()])
                answer = self._socket.recv(1 << 12)
            except OSError:
                answer = b""
            if self.stopping.is_set():
                raise StoppedError
            if not answer:
                raise FibRmsnormError(f"the worker processes cannot start: {self._last_words()}")
            process = Process(self, json.loads(answer)["pid"], Channel(ours.detach()), log, handover)
            self._alive[process.pid] = process
        return process

    def _last_words(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "their parent died"

    def forget(self, process: Process) -> None:
        """Take a process that has ended off the list, and kill what it left behind."""
        with self._lock:
            self._alive.pop(process.pid, None)
        self.kill_escaped()

    def kill_escaped(self) -> None:
        """Kill descendants of workers that are our children now, being orphans or made so.

        The children of what is killed become ours in turn, until none is left.
        """
        while any(self._kill_if_escaped(child) for child in psutil.Process().children()):
            pass

    def _kill_if_escaped(self, child: psutil.Process) -> bool:
        with self._lock:
            known = child.pid in self._alive or child.pid == self._process.pid
        if known:
            return False
        try:
            session = os.getsid(child.pid)
            if not self._is_of_a_worker(child, session):
                return False
            child.kill()
            os.waitpid(child.pid, 0)
        except (psutil.Error, OSError):
            return False
        self.escaped_sessions.add(session)
        return True

    def _is_of_a_worker(self, child: psutil.Process, session: int) -> bool:
        """It has the run's id; or, if it got rid of its environment, a worker's mark in a session that is not ours."""
        with contextlib.suppress(psutil.Error):  # it may have forbidden to look
            if child.environ().get(_RUN_VARIABLE) == self.run:
                return True
        return session != os.getsid(0) and is_marked(child.pid) and not is_marked(os.getpid())

    def close(self) -> None:
        """Kill every process of this run."""
        self.stopping.set()
        # First, because one that still imports torch would keep a spawn waiting, and us for its lock.
        self._process.kill()
        self._process.wait()
        with self._lock:
            processes = list(self._alive.values())
        for process in processes:
            process.signal_kill()  # all of them before any is waited for: what holds a GPU takes 0.1 s to die
        for process in processes:
            process.kill()
        self._socket.close()
        self.kill_escaped()
        self._errors.close()

    def __enter__(self) -> Zygote:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Process:
    """One worker or judge, in a process group of its own."""

    def __init__(self, zygote: Zygote, pid: int, channel: Channel, log: Log, handover: FileIO) -> None:
        self.pid = pid
        self._zygote = zygote
        self._channel = channel
        self._log = log
        self._handover = handover
        self._pidfd = os.pidfd_open(pid)
        self._lock = threading.Lock()
        self._ended: str | None = None

    @property
    def alive(self) -> bool:
        """Whether it has not ended, as far as we know."""
        return self._ended is None

    def request(self, message: Message, deadline: float, memory_limit: int | None = None) -> Message:
        """Send a request and wait for its answer until `deadline` (of time.monotonic).

        Raises ProcessDiedError, ProcessTimeoutError or ProcessGreedyError, and then the process is gone;
        StoppedError if the run is stopped meanwhile.
        """
        try:
            if self._channel.has_unread():
                self._channel.receive_part()  # EOFError if it has died meanwhile
                raise ValueError("it spoke before it was asked")
            self._channel.send(message)
            while True:
                left = deadline - time.monotonic()
                ready = wait([self._channel.fileno(), self._pidfd], max(0.0, min(_POLL_S, left)))
                if self._zygote.stopping.is_set():
                    raise StoppedError
                self._log.trim()
                if self._channel.fileno() in ready:
                    if (answer := self._channel.receive_part()) is not None:
                        return answer
                elif ready:
                    raise ProcessDiedError(self.kill())
                if left <= 0:
                    self.kill()
                    raise ProcessTimeoutError
                if memory_limit is not None and (used := self._memory()) > memory_limit:
                    self.kill()
                    raise ProcessGreedyError(f"took {used / 2**30:.1f} GiB of {memory_limit / 2**30:.1f} allowed")
        except (EOFError, OSError, ValueError) as error:
            if self._zygote.stopping.is_set():
                raise StoppedError from None
            how = self.kill(grace_s=_DYING_S)
            raise ProcessDiedError(how if not isinstance(error, ValueError) else f"sent no message: {error}") from None

    def _memory(self) -> int:
        """Resident bytes of the process and its descendants."""
        total = 0
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(self.pid)
            for member in (process, *process.children(recursive=True)):
                with contextlib.suppress(psutil.Error):
                    total += member.memory_info().rss
        return total

    def kill(self, grace_s: float = 0.0) -> str:
        """Kill the process and its group, and say how it had ended: by itself (within `grace_s`), or by us."""
        with self._lock:
            if self._ended is None:
                by_itself = bool(wait([self._pidfd], grace_s))
                self._signal_kill()
                self._ended = _describe_end(self.pid, by_itself)
                os.close(self._pidfd)
                self._channel.close()
                self._zygote.forget(self)
        return self._ended

    def signal_kill(self) -> None:
        """Kill the process and its group without waiting for its end; `kill` does."""
        with self._lock:
            if self._ended is None:
                self._signal_kill()

    def _signal_kill(self) -> None:
        for kill in (os.killpg, os.kill):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                kill(self.pid, signal.SIGKILL)

    @property
    def handover_path(self) -> str:
        """Where another process finds the outputs that this one hands over."""
        return f"/proc/{os.getpid()}/fd/{self._handover.fileno()}"

    def clear_handover(self) -> None:
        """Throw away what was handed over."""
        self._handover.truncate(0)

    def take_log(self) -> str:
        """What it wrote to stdout and stderr since last asked: its beginning and end if that is long."""
        return self._log.take()


def _describe_end(pid: int, by_itself: bool) -> str:
    try:
        _, status = os.waitpid(pid, 0)
    except ChildProcessError:
        return "ended"
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return f"exited with code {code}"
    known = -code in set(signal.Signals)  # most real-time signals have no name
    name = signal.Signals(-code).name if known else f"signal {-code}"
    return f"died of {name}" if by_itself or -code != signal.SIGKILL else "killed"
