"""`fib-rmsnorm try --watch`: print every version of a kernel that is saved, in one live table on a terminal."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack, closing
from typing import NoReturn

from rich.console import Group
from rich.live import Live
from rich.text import Text

from fib_rmsnorm.cli.program import tidying
from fib_rmsnorm.registry import Registry
from fib_rmsnorm.reports.live.versions import describe_version, version_line, versions_table
from fib_rmsnorm.reports.text.console import echo, stderr, stdout
from fib_rmsnorm.reports.text.folding import Folded
from fib_rmsnorm.sessions.session import Session
from fib_rmsnorm.sessions.session_protocol import KernelFile
from fib_rmsnorm.sessions.version import Version
from fib_rmsnorm.sessions.watching import Watch

_LINES_BESIDE = 12
"""The lines of a terminal that are left for what is told of the newest version."""


def watch_kernel(session: Session, registry: Registry, kernel: KernelFile, *, timed: bool, as_json: bool) -> NoReturn:
    """Print what a session finds of each version, until Ctrl-C, and close it."""
    place = f"{session.definition.name}, {session.device.hardware}"
    with (
        session,
        WatchPrinter(str(kernel.file), place, as_json=as_json) as printer,
        closing(Watch(session, registry, kernel).versions(timed=timed)) as versions,
    ):
        for version in versions:
            if version is None:
                printer.show([*session.history], "judging")
                continue
            printer.show([*session.history], "watching" if version.done else "timing")
            if version.done:
                printer.finish(version)
    raise AssertionError("a watch ends by an exception alone")


class WatchPrinter:
    """Prints each version when it is done; on a terminal also what is known before. A context manager."""

    def __init__(self, kernel: str, place: str, *, as_json: bool) -> None:
        self._as_json = as_json
        self._place = f"{kernel} on {place}; Ctrl-C ends"
        self._stack = ExitStack()
        self._live: Live | None = None
        if stdout().is_terminal and not as_json:
            # No refreshing by itself: that would disturb what is timed.
            self._live = Live(console=stdout(), auto_refresh=False, vertical_overflow="crop")

    def __enter__(self) -> WatchPrinter:
        if self._live is None:
            stderr().print(f"watching {self._place}")
        else:
            self._stack.enter_context(tidying(_show_cursor))
            self._stack.enter_context(self._live)
            self.show([], "starting")
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def show(self, versions: Sequence[Version], doing: str) -> None:
        """Show the table anew, on a terminal."""
        if self._live is None:
            return
        parts: list[object] = []
        if versions:
            room = max(3, stdout().height - _LINES_BESIDE)
            parts += [versions_table(versions[-room:]), Text(), Folded(describe_version(versions[-1]), 4)]
        status = Text(f"{doing} {self._place}", style="dim")
        self._live.update(Group(*parts, status), refresh=True)  # type: ignore[arg-type]

    def finish(self, version: Version) -> None:
        """Print a version that is done, unless a table shows it."""
        if self._as_json:
            echo(version.model_dump_json())
        elif self._live is None:
            stdout().print(version_line(version))


def _show_cursor() -> None:
    os.write(1, b"\r\x1b[2K\x1b[?25h")
