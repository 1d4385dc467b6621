"""A process, from the scheduler's side: send it requests, in a thread for each job, and end it in any state."""

import contextlib
import os
import queue
import resource
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from io import FileIO
from multiprocessing.connection import wait
from typing import TypeVar

import psutil

from fib_rmsnorm.sandbox.channel import Channel, Message
from fib_rmsnorm.sandbox.log import Log

Found = TypeVar("Found")

_LEAST_TASK_LIMIT = 4096
_TASKS_PER_CORE = 64  # thread pools and compilers start some for each
_POLL_S = 0.2
_EXIT_DELAY_S = 0.1  # a process that exits closes its channel a moment before its exit status is there


class NoAnswerError(Exception):
    """The process gave no valid answer and has ended. The message says why, to follow its name: `died of SIGSEGV`."""


class ProcessDiedError(NoAnswerError):
    """It ended before it answered. The message says how, with the signal's name."""


class ProcessTimeoutError(NoAnswerError):
    """It did not answer in time and was killed."""


class StoppedError(Exception):
    """The run is being stopped."""


def find_task_limit() -> int:
    """How many processes and threads a process may start: no more than half of those that its user may have."""
    limit = max(_LEAST_TASK_LIMIT, _TASKS_PER_CORE * (os.cpu_count() or 1))
    most = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    return limit if most == resource.RLIM_INFINITY else min(limit, most // 2)


_looking = threading.Lock()


@lru_cache(maxsize=1)
def _find_children(_moment: int) -> Mapping[int, Sequence[psutil.Process]]:
    """The children of all processes of the machine."""
    children = defaultdict[int, list[psutil.Process]](list)
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            children[process.ppid()].append(process)
    return children


def _find_descendants(pid: int) -> list[psutil.Process]:
    """The descendants of a process, as of one look for all that ask at about the same time.

    A look takes 6 ms of Python or more. On a GPU, many threads wait for workers that are being built: if each looked by
    itself, the requests to the worker that is timed would wait for them.
    """
    with _looking:
        children = _find_children(int(time.monotonic() / _POLL_S))
    found, left = dict[int, psutil.Process](), [pid]
    while left:
        new = [each for each in children.get(left.pop(), ()) if each.pid not in found]
        found |= {each.pid: each for each in new}
        left += [each.pid for each in new]
    return list(found.values())


@dataclass(eq=False)
class Process:
    """One worker or judge, in a process group of its own."""

    pid: int
    _channel: Channel
    _log: Log
    _outputs_file: FileIO
    _stopping: threading.Event
    """Set when the run is being stopped."""
    _forget: Callable[[], None]
    """Called once this process has ended."""
    _ended: str | None = None

    def __post_init__(self) -> None:
        self._pidfd = os.pidfd_open(self.pid)
        self._lock = threading.RLock()

    @property
    def alive(self) -> bool:
        """Whether the process is not known to have ended."""
        return self._ended is None

    def request(
        self, message: Message, deadline: float, memory_limit: int | None = None, files: Sequence[int] = ()
    ) -> Message:
        """Send a request, with open files, and wait until `deadline` (a time.monotonic value) for its answer.

        Raises NoAnswerError, also for one that exceeds a limit of memory or of processes and threads, and then the
        process is gone; StoppedError if the run is stopped meanwhile.
        """
        if self._ended is not None and not self._stopping.is_set():
            raise ProcessDiedError(self._ended)
        try:
            if self._channel.has_unread():
                self._channel.receive_part()  # EOFError if it has died meanwhile
                raise ValueError("it came before any request")
            self._channel.send(message, files)
            started = time.monotonic()
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
                    raise ProcessTimeoutError(f"timed out after {time.monotonic() - started:.0f} s")
                if excess := self._find_excess(memory_limit):
                    self.kill()
                    raise NoAnswerError(excess)
        except (EOFError, OSError, ValueError) as error:
            if self._stopping.is_set():
                raise StoppedError from None
            how = self.kill(grace_s=_EXIT_DELAY_S)
            raise ProcessDiedError(
                f"sent an invalid message: {error}" if isinstance(error, ValueError) else how
            ) from None

    def _find_excess(self, memory_limit: int | None) -> str | None:
        """The limit that the process and its descendants exceed, in words; None if none."""
        members: list[psutil.Process] = []
        with contextlib.suppress(psutil.Error):
            members = [psutil.Process(self.pid), *_find_descendants(self.pid)]
        limit, tasks, used = find_task_limit(), len(members), 0
        for member in members[:limit]:
            with contextlib.suppress(psutil.Error):
                tasks += member.num_threads() - 1
                used += member.memory_info().rss
        if tasks >= limit:
            return f"started {tasks} processes and threads; the limit is {limit}"
        if memory_limit is not None and used > memory_limit:
            with contextlib.suppress(psutil.Error):  # pages that are mapped again and again count once
                used = sum(member.memory_full_info().pss for member in members[:limit])
        if memory_limit is not None and used > memory_limit:
            return f"took {used / 2**30:.1f} GiB of memory; the limit is {memory_limit / 2**30:.1f} GiB"
        return None

    def kill_if_excessive(self) -> None:
        """Kill the process if it and its descendants are too many; the next request reports it."""
        if excess := self._find_excess(None):
            self.kill(why=excess)

    def kill(self, grace_s: float = 0.0, why: str | None = None) -> str:
        """Kill the process and its group. Return how it ended: by itself (within `grace_s`), or killed (`why`)."""
        with self._lock:
            if self._ended is None:
                by_itself = bool(wait([self._pidfd], grace_s))
                self.signal_kill()
                how = _describe_end(self.pid, by_itself)
                self._ended = why or how
                os.close(self._pidfd)
                self._channel.close()
                self._outputs_file.close()
                self._forget()
                self._log.close()  # after the end of all processes that may print to it
        return self._ended

    def signal_kill(self) -> None:
        """Kill the process and its group, but do not wait for its end, as `kill` does."""
        with self._lock:
            for kill in (os.killpg, os.kill) if self._ended is None else ():
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    kill(self.pid, signal.SIGKILL)

    @property
    def outputs_file(self) -> int:
        """The descriptor of the file to which the process writes its outputs, for another process to read.

        Raises ProcessDiedError if the process has ended, and with it the outputs; StoppedError if the run is stopped.
        """
        with self._lock:
            if self._ended is not None:
                raise StoppedError if self._stopping.is_set() else ProcessDiedError(self._ended)
            return self._outputs_file.fileno()

    def clear_outputs(self) -> None:
        """Discard the outputs that were transferred."""
        with self._lock:
            if self._ended is None:
                self._outputs_file.truncate(0)

    def take_log(self) -> str:
        """Return its output since the last call; only the beginning and the end if it is long."""
        with self._lock:
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


def run_in_threads(jobs: Sequence[Callable[[], Iterable[Found]]], stop: Callable[[], None]) -> Generator[Found]:
    """Run each job in a thread of its own and yield what they yield, as it comes.

    Closing the generator early, an exception in its user, or one in a job, calls `stop`, which has to end all processes
    that jobs wait for. A job that is stopped by it raises StoppedError, as this does if they had been stopped before.
    """
    found: queue.SimpleQueue[tuple[Found] | BaseException | None] = queue.SimpleQueue()
    threads = [threading.Thread(target=_run, args=(job, found), daemon=True) for job in jobs]
    for thread in threads:
        thread.start()
    try:
        running = len(threads)
        while running:
            item = found.get()
            if item is None:
                running -= 1
            elif isinstance(item, BaseException):
                raise item
            else:
                yield item[0]
    except BaseException:
        stop()  # so that the threads return at once
        raise
    finally:
        for thread in threads:
            thread.join()


def _run(job: Callable[[], Iterable[Found]], found: queue.SimpleQueue[tuple[Found] | BaseException | None]) -> None:
    try:
        for each in job():
            found.put((each,))
    except BaseException as error:
        found.put(error)
    finally:
        found.put(None)
