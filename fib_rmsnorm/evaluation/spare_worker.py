"""A worker that is started on a GPU before its Solution is known, so that the first verdict on it comes sooner.

It opens the GPU, loads the compiler of a language and makes the inputs of all cases once, which takes two seconds. A
worker that begins with the Solution does the same while somebody waits.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fib_rmsnorm.building.cache import making_folders
from fib_rmsnorm.errors import FibRmsnormError
from fib_rmsnorm.evaluation.worker.worker_messages import GetReady
from fib_rmsnorm.machine.devices import Device
from fib_rmsnorm.sandbox.asking import Done, ask, require_device
from fib_rmsnorm.sandbox.channel import RefusalError
from fib_rmsnorm.sandbox.process import NoAnswerError, Process, StoppedError

_MOST_S = 60.0


@dataclass(frozen=True)
class StartedAhead:
    """A process that is ready for a Solution of a Definition, and the folder that it may write its builds to."""

    definition: str
    may_be_timed: bool
    folder: Path
    process: Future[Process]


class SpareWorker:
    """At most one worker without a Solution, on one device."""

    def __init__(self, device: Device, spawn: Callable[[GetReady, Path, bool], Process]) -> None:
        """`spawn` starts the process of a worker that writes to a folder, and may be timed or not."""
        self._device = device
        self._spawn = spawn
        self._pool = ThreadPoolExecutor(1)
        self.started: StartedAhead | None = None
        """The worker that is there or being started."""

    def start(self, wanted: GetReady, drafts: Path, may_be_timed: bool) -> None:
        """Start one in the background, unless there is one. It will write its builds to a new folder of `drafts`."""
        if self.started is None:
            with making_folders():
                folder = Path(tempfile.mkdtemp(dir=drafts))
            ready = self._pool.submit(self._start, wanted, folder, may_be_timed)
            self.started = StartedAhead(wanted.definition.name, may_be_timed, folder, ready)

    def _start(self, wanted: GetReady, folder: Path, may_be_timed: bool) -> Process:
        process = self._spawn(wanted, folder, may_be_timed)
        try:
            deadline = time.monotonic() + _MOST_S
            require_device(process, self._device, lambda request, kind: ask(process, request, kind, deadline))
            ask(process, wanted, Done, deadline)
        except BaseException:
            process.kill()
            raise
        process.take_log()  # what libraries print is not of the Solution
        return process

    def take(self, definition: str, is_timed: bool) -> tuple[Process, Path] | None:
        """The worker and its folder; None if there is none that fits. Waits for one that is being started."""
        started, self.started = self.started, None
        # If it failed, the Solution gets another worker, and its verdict says what is wrong.
        with suppress(FibRmsnormError, NoAnswerError, RefusalError, StoppedError):
            if started is not None:
                process = started.process.result()
                suits = started.definition == definition and (started.may_be_timed or not is_timed)
                if suits and process.alive:
                    return process, started.folder
                process.kill()
        return None

    def end(self) -> None:
        """End it, and start no other."""
        self.take("", is_timed=False)
        self._pool.shutdown()
