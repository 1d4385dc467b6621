"""A worker that is started on a GPU before its Solution is known, so that the first verdict on it comes sooner.

It opens the GPU, loads the compiler of a language and makes the inputs of all cases once, which takes two seconds. A
worker that begins with the Solution does the same while somebody waits.
"""

import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

from fib_rmsnorm.building.cache import making_folders
from fib_rmsnorm.errors import FibRmsnormError
from fib_rmsnorm.evaluation.worker.worker_messages import GetReady
from fib_rmsnorm.machine.devices import Device
from fib_rmsnorm.sandbox.asking import Done, ask, require_device
from fib_rmsnorm.sandbox.channel import RefusalError
from fib_rmsnorm.sandbox.process import NoAnswerError, Process, StoppedError

_MOST_S = 60.0


class SpareWorker:
    """A worker without a Solution, which is ready for one of a Definition or being started."""

    def __init__(self, device: Device, wanted: GetReady, drafts: Path, spawn: Callable[[Path], Process]) -> None:
        """Start it in the background. `spawn` starts its process; its builds go to a new folder of `drafts`."""
        self._definition = wanted.definition.name
        with making_folders():
            self.folder = Path(tempfile.mkdtemp(dir=drafts))
        with_one_thread = ThreadPoolExecutor(1)
        self._process = with_one_thread.submit(_start, device, wanted, partial(spawn, self.folder))
        with_one_thread.shutdown(wait=False)

    def take(self, definition: str) -> Process | None:
        """Its process, when that has started. If it does not fit, it is ended, and this is None."""
        # If it failed, the Solution gets another worker, and its verdict says what is wrong.
        with suppress(FibRmsnormError, NoAnswerError, RefusalError, StoppedError):
            process = self._process.result()
            if definition == self._definition and process.alive:
                return process
            process.kill()
        return None


def _start(device: Device, wanted: GetReady, spawn: Callable[[], Process]) -> Process:
    process = spawn()
    try:
        deadline = time.monotonic() + _MOST_S
        require_device(process, device, lambda request, kind: ask(process, request, kind, deadline))
        ask(process, wanted, Done, deadline)
    except BaseException:
        process.kill()
        raise
    process.take_log()  # what libraries print is not of the Solution
    return process
