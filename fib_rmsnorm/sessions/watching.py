"""Follow a kernel's files: judge and time every version that is saved, on one device. All that they share stays warm.

Each version gets a worker of its own. It is judged on every Workload as by `try`, and timed in turn with the version
before it, a baseline and the reference. When a version is replaced, its worker and its build end before the next one
starts.
"""

import threading
from collections.abc import Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue

from watchfiles import watch

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.registry.sources.kernel_file import KernelFile
from fib_rmsnorm.registry.sources.manifest import MANIFEST, read_manifest
from fib_rmsnorm.sessions.contenders import History
from fib_rmsnorm.sessions.job import Job
from fib_rmsnorm.sessions.service import Service
from fib_rmsnorm.sessions.version import Version

_STEP_MS = 30  # of silence after which a burst of changes is over
_BURST_MS = 400
_LOOK_MS = 500
"""How often it is looked whether the folders are still the same: one that was replaced sends no events."""
_HALF_WRITTEN_S = 0.2
"""The wait for the other half of a file that cannot be read."""


class Watch:
    """Has a service judge and time the versions of one kernel."""

    def __init__(self, service: Service, kernel: KernelFile, *, timed: bool, batch_sizes: Sequence[int]) -> None:
        self._service = service
        self._kernel = kernel
        self._timed = timed
        self._batch_sizes = batch_sizes
        self._history = History()
        self._stop = threading.Event()
        self._changed: SimpleQueue[Job | None] = SimpleQueue()
        """The request of a version at every change of its results; None at the end."""
        self._job: Job | None = None
        """The request of the newest version."""

    def versions(self) -> Generator[Version]:
        """Evaluate the kernel now and whenever its content changes, without end.

        Yields the results of each version as they come, at last those that are done; a newer save ends the evaluation
        of an older one, whatever that does. Raises InputError for a wrong argument at the start, and FibRmsnormError if
        the reference fails.
        """
        self._job = self._service.put(self._read())
        with ThreadPoolExecutor(1) as pool, ExitStack() as ending:
            ending.callback(self._stop.set)  # before the thread runs: after Ctrl-C, the pool waits for it
            watching = pool.submit(self._watch)
            watching.add_done_callback(lambda _: self._changed.put(None))
            last = None
            while (job := self._changed.get()) is not None:
                is_done = job.finished.is_set()
                version = job.wait() if is_done else job.version
                if version is not None and version is not last and version.done == is_done:
                    last = version
                    yield version
            watching.result()  # raises why it ended

    def _watch(self) -> None:
        """Evaluate each new content, in a thread of its own.

        It watches folders, not files: an editor may replace a file by a new one of the same name.
        """
        while not self._stop.is_set():
            watched, is_new = _identify(self._folders()), True
            try:
                for changes in watch(
                    *watched,
                    recursive=False,
                    step=_STEP_MS,
                    debounce=_BURST_MS,
                    rust_timeout=_LOOK_MS,
                    yield_on_timeout=True,
                    raise_interrupt=False,
                    stop_event=self._stop,
                ):
                    if changes or is_new:  # a change before the watch began sends no event
                        self._look()
                    is_new = False
                    if _identify(self._folders()) != watched:
                        break
            except FileNotFoundError:  # a folder went away while its watch began
                self._stop.wait(_STEP_MS / 1e3)

    def _look(self) -> None:
        """Evaluate the content if it is new, and end what is evaluated. Other files of the folder change too."""
        job = self._read()
        if self._job is None or job.content == self._job.content:
            return
        self._service.cancel(self._job)
        self._job.finished.wait()
        if job.plan is None:
            self._stop.wait(_HALF_WRITTEN_S)
            job = self._read()
        self._job = self._service.put(job)

    def _read(self) -> Job:
        """A request to judge the kernel as it is now. Raises InputError for a wrong argument at the start."""
        job = Job("watch", self._changed.put, timed=self._timed, history=self._history)
        try:
            self._service.read(job, replace(self._kernel), self._batch_sizes)  # which has read nothing yet
        except InputError as error:
            if self._job is None or job.version is None:
                raise
            job.version = job.version.with_fault(error)  # as when its files are gone
        return job

    def _folders(self) -> set[Path]:
        """The folders of the kernel, of the files beside it that it needs, and of the shared ones that it includes."""
        file, solutions = self._kernel.file.absolute(), self._service.registry.layout.solutions
        home = file if file.is_dir() else file.parent
        folders = {home}
        plan = self._job.plan if self._job else None
        for draft in plan.drafts.values() if plan else ():
            folders |= {(home / source.path).parent for source in draft.sources}
        with suppress(InputError):
            if (home / MANIFEST).is_file():
                folders |= {(solutions / path).parent for path in read_manifest(home / MANIFEST).include}
        return folders


def _identify(folders: Iterable[Path]) -> dict[Path, tuple[int, int]]:
    """The folders that exist, each with what tells it from one that replaced it."""
    found = {}
    for folder in folders:
        with suppress(OSError):
            status = folder.stat()
            found[folder] = status.st_dev, status.st_ino
    return found
