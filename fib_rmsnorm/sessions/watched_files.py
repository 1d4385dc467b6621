"""Notice that a kernel's files have changed: by the events of the file system, which watchfiles reads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from watchfiles import watch

_STEP_MS = 30  # of silence after which a burst of changes is over
_BURST_MS = 400
_LOOK_MS = 500
"""How often it is looked whether the folders are still the same: one that was replaced sends no events."""


class WatchedFiles:
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
            if not watched:
                self._stop.wait(_LOOK_MS / 1e3)
                continue
            for changes in self._watch(watched):
                if changes:
                    self._report()
                if self._there() != watched:
                    break

    def _watch(self, watched: dict[Path, tuple[int, int]]) -> Iterator[object]:
        try:
            yield from watch(
                *watched,
                recursive=False,
                step=_STEP_MS,
                debounce=_BURST_MS,
                rust_timeout=_LOOK_MS,
                yield_on_timeout=True,
                raise_interrupt=False,
                stop_event=self._stop,
            )
        except FileNotFoundError:  # a folder went away while its watch began
            self._stop.wait(_STEP_MS / 1e3)

    def _there(self) -> dict[Path, tuple[int, int]]:
        """The folders that exist, each with what tells it from one that replaced it."""
        found = {}
        for folder in self._folders:
            try:
                status = folder.stat()
            except OSError:
                continue
            found[folder] = status.st_dev, status.st_ino
        return found

    def _report(self) -> None:
        self._on_change()
        self._changed.set()
