"""A process from the scheduler's side: ask it, and be rid of it whatever it does."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable
from io import FileIO
from multiprocessing.connection import wait

import psutil

from fib_rmsnorm.sandbox.channel import Channel, Message
from fib_rmsnorm.sandbox.log import Log

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


class Process:
    """One worker or judge, in a process group of its own."""

    def __init__(
        self,
        pid: int,
        channel: Channel,
        log: Log,
        outputs_file: FileIO,
        *,
        stopping: threading.Event,
        forget: Callable[[Process], None],
    ) -> None:
        """`stopping` is set when the run is being stopped; `forget` is called once this process has ended."""
        self.pid = pid
        self._stopping = stopping
        self._forget = forget
        self._channel = channel
        self._log = log
        self._outputs_file = outputs_file
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
                if self._stopping.is_set():
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
            if self._stopping.is_set():
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
                self._forget(self)
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
    def outputs_path(self) -> str:
        """Where another process finds the outputs that this one hands over."""
        return f"/proc/{os.getpid()}/fd/{self._outputs_file.fileno()}"

    def clear_outputs(self) -> None:
        """Throw away what was handed over."""
        self._outputs_file.truncate(0)

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
