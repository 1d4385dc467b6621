"""Follow a kernel's files: tell what a session finds of every version that is saved."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from watchfiles import watch

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.registry import Registry
from fib_rmsnorm.registry.sources.manifest import MANIFEST, read_manifest
from fib_rmsnorm.schema import Solution, digest
from fib_rmsnorm.sessions.kernel_file import KernelFile
from fib_rmsnorm.sessions.session import Session
from fib_rmsnorm.sessions.version import Version

_STEP_MS = 30  # of silence after which a burst of changes is over
_BURST_MS = 400
_LOOK_MS = 500
"""How often it is looked whether the folders are still the same: one that was replaced sends no events."""
_HALF_WRITTEN_S = 0.2
"""What cannot be read may be half of a file; the other half comes within this time."""


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
    """Follows one kernel."""

    def __init__(self, session: Session, registry: Registry, kernel: KernelFile) -> None:
        self._session = session
        self._solutions = registry.layout.solutions
        self._kernel = kernel
        self._evaluated: str | None = None
        """The content that is being evaluated, or was last."""
        self._lock = threading.Lock()

    def versions(self, *, timed: bool = True) -> Generator[Version | None]:
        """Evaluate the kernel now and whenever its content changes, without end.

        Yields what `Session.follow` yields, and None before each version. A newer save ends the evaluation of an older
        one, whatever that does.
        """
        with WatchedFiles(self._abandon_older) as files:
            files.watch(self._folders(None))
            while True:
                files.wait()
                while self._read()[1] is None and files.wait(_HALF_WRITTEN_S):
                    pass
                with self._lock:
                    content, solution = self._read()
                    if content == self._evaluated:
                        continue
                    self._evaluated = content
                    # Begun under the lock: a save that comes now ends it, and is not forgotten.
                    found = self._session.follow(self._kernel, timed=timed, draft=solution)
                files.watch(self._folders(solution))
                yield None
                for version in found:
                    yield version
                    if version.abandoned:
                        self._evaluated = None  # if this content comes back, it has no verdict yet

    def _abandon_older(self) -> None:
        """End the evaluation of what is not the kernel's content any more. Other files of its folder change too."""
        with self._lock:
            if self._evaluated is not None and self._read()[0] != self._evaluated:
                self._session.abandon()

    def _read(self) -> tuple[str, Solution | None]:
        """What tells the kernel's content from any other, and the kernel; None if it cannot be read."""
        try:
            solution = self._session.read(self._kernel)
        except InputError as error:
            return str(error), None
        return digest(solution), solution

    def _folders(self, solution: Solution | None) -> set[Path]:
        """The folders of the kernel, of the files beside it that it needs, and of the shared ones that it includes."""
        file = self._kernel.file.absolute()
        home = file if file.is_dir() else file.parent
        folders = {home}
        for source in solution.sources if solution else ():
            folders.add((home / source.path).parent)
        with suppress(InputError):
            if (home / MANIFEST).is_file():
                folders |= {(self._solutions / path).parent for path in read_manifest(home / MANIFEST).include}
        return folders
