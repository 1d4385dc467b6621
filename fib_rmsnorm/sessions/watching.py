"""Follow a kernel's files: judge and time every version that is saved, on one device. All that they share stays warm.

Each version gets a worker of its own. It is judged on every Workload as by `try`, and timed in turn with the version
before it, a baseline and the reference. When a version is replaced, its worker and its build end before the next one
starts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from queue import SimpleQueue

from watchfiles import watch

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.registry import Registry
from fib_rmsnorm.registry.sources.callees import KernelCall
from fib_rmsnorm.registry.sources.draft import draft_calls
from fib_rmsnorm.registry.sources.kernel_file import KernelFile, choose_definition
from fib_rmsnorm.registry.sources.manifest import MANIFEST, read_manifest
from fib_rmsnorm.schema import Solution, digest
from fib_rmsnorm.sessions.contenders import History
from fib_rmsnorm.sessions.job import Job, follow
from fib_rmsnorm.sessions.service import Service
from fib_rmsnorm.sessions.version import Version

_STEP_MS = 30  # of silence after which a burst of changes is over
_BURST_MS = 400
_LOOK_MS = 500
"""How often it is looked whether the folders are still the same: one that was replaced sends no events."""
_HALF_WRITTEN_S = 0.2
"""The wait for the other half of a file that cannot be read."""


class WatchedFiles(AbstractContextManager["WatchedFiles"]):
    """Watches folders in a thread of its own, and those that are added. A context manager.

    Folders, not files: an editor may replace a file by a new one of the same name.
    """

    def __init__(self, on_change: Callable[[], None]) -> None:
        """`on_change` is called in the thread of the watch before `wait` returns."""
        self._on_change = on_change
        self._changed = threading.Event()
        self._stop = threading.Event()
        self._folders: frozenset[Path] = frozenset()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> WatchedFiles:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def watch(self, folders: Iterable[Path]) -> None:
        """Watch these folders from now on; what changed before counts as a change."""
        self._folders = frozenset(folders)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for a change since the last one that was waited for; return whether there was one."""
        found = self._changed.wait(timeout_s)
        self._changed.clear()
        return found

    def _run(self) -> None:
        while not self._stop.is_set():
            self._report()  # what happened while nobody watched
            watched = self._there()
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
                    if changes:
                        self._report()
                    if self._there() != watched:
                        break
            except FileNotFoundError:  # a folder went away while its watch began
                self._stop.wait(_STEP_MS / 1e3)

    def _there(self) -> dict[Path, tuple[int, int]]:
        """The folders that exist, each with what tells it from one that replaced it."""
        found = {}
        for folder in self._folders:
            with suppress(OSError):
                status = folder.stat()
                found[folder] = status.st_dev, status.st_ino
        return found

    def _report(self) -> None:
        self._on_change()
        self._changed.set()


class Watch:
    """Has a service judge and time the versions of one kernel."""

    def __init__(
        self,
        service: Service,
        registry: Registry,
        kernel: KernelFile,
        *,
        timed: bool = True,
        batch_sizes: Sequence[int] = (),
    ) -> None:
        self._service = service
        self._registry = registry
        self._kernel = kernel
        self._timed = timed
        self._batch_sizes = batch_sizes
        self._history = History()
        self._evaluated: str | None = None
        """The content that is being evaluated, or was last."""
        self._job: Job | None = None
        """Its request."""
        self._lock = threading.Lock()

    def versions(self) -> Generator[Version]:
        """Evaluate the kernel now and whenever its content changes, without end.

        Yields what `follow` yields of each version; a newer save ends the evaluation of an older one, whatever that
        does. Raises InputError for a wrong argument at the start, and FibRmsnormError if the reference fails.
        """
        with WatchedFiles(self._cancel_older) as files:
            files.watch(self._folders(None))
            while True:
                files.wait()
                while self._read()[1] is None and files.wait(_HALF_WRITTEN_S):
                    pass
                changed: SimpleQueue[Job] = SimpleQueue()
                with self._lock:
                    content, drafts = self._read()
                    if content == self._evaluated:
                        continue
                    is_first, self._evaluated = self._evaluated is None and self._job is None, content
                    try:
                        # Begun under the lock: a save that comes now ends it, and is not forgotten.
                        self._job = self._service.submit(
                            "watch",
                            self._kernel,
                            timed=self._timed,
                            batch_sizes=self._batch_sizes,
                            on_change=changed.put,
                            history=self._history,
                        )
                        found: Iterator[Version] = follow(self._job, changed)
                    except InputError as error:
                        if is_first:
                            raise
                        found = iter([self._refuse(error)])
                files.watch(self._folders(drafts))
                yield from found
                if self._job and self._job.cancelled:
                    self._evaluated = None  # if this content comes back, it has no verdict yet

    def _refuse(self, error: InputError) -> Version:
        """The version that its files make, as when they are gone."""
        self._history.count += 1
        name, hardware = self._kernel.file.name, self._service.devices[0].hardware
        return Version(self._history.count, name, self._kernel.definition or "", hardware).with_fault(error)

    def _cancel_older(self) -> None:
        """End the evaluation of what is not the kernel's content any more. Other files of its folder change too."""
        with self._lock:
            if self._job is not None and self._evaluated is not None and self._read()[0] != self._evaluated:
                self._service.cancel(self._job)

    def _read(self) -> tuple[str, Mapping[KernelCall, Solution] | None]:
        """A digest of the kernel's content, and the kernel; None if it cannot be read."""
        kernel = self._kernel
        try:
            definition = choose_definition(self._registry, kernel)
            drafts = draft_calls(self._registry, kernel, definition)
        except InputError as error:
            return str(error), None
        return digest(next(iter(drafts.values()))), drafts

    def _folders(self, drafts: Mapping[KernelCall, Solution] | None) -> set[Path]:
        """The folders of the kernel, of the files beside it that it needs, and of the shared ones that it includes."""
        file, solutions = self._kernel.file.absolute(), self._registry.layout.solutions
        home = file if file.is_dir() else file.parent
        folders = {home}
        for draft in (drafts or {}).values():
            folders |= {(home / source.path).parent for source in draft.sources}
        with suppress(InputError):
            if (home / MANIFEST).is_file():
                folders |= {(solutions / path).parent for path in read_manifest(home / MANIFEST).include}
        return folders
