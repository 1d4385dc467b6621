"""A progress bar that shares its terminal with results and notes. It runs while torch loads, so it imports no torch."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, TypeVar

from rich import progress
from rich.console import Console, RenderableType

from fib_rmsnorm.cli.program import tidying
from fib_rmsnorm.reports.text.console import Folded, stderr, stdout

if TYPE_CHECKING:
    from fib_rmsnorm.schema import Definition, Solution

Named = TypeVar("Named", "Definition", "Solution")
_STDERR = 2


class ProgressBar:
    """Counts evaluations or builds on stderr if it is a terminal. A context manager."""

    def __init__(self, total: int | None = None, doing: str = "preparing") -> None:
        self._bar = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TimeElapsedColumn(),
            progress.TextColumn("ETA"),
            progress.TimeRemainingColumn(),
            console=stderr(),
            transient=True,
            speed_estimate_period=600,  # the Solutions of a Workload are done together, so progress comes in jumps
            disable=not _has_room(),
        )
        self._task = self._bar.add_task(doing, total=total)
        self._stack = ExitStack()

    def __enter__(self) -> ProgressBar:
        if not self._bar.disable:
            self._stack.enter_context(tidying(_take_away))
            self._stack.enter_context(self._bar)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Remove the bar."""
        self._stack.close()

    def print(self, console: Console, what: RenderableType) -> None:
        """Print to a console, above the bar if both are on a terminal."""
        is_shared = self._bar.live.is_started and console.is_terminal
        (self._bar.console if is_shared else console).print(what)

    def note(self, text: str) -> None:
        """Print above the bar, on stderr, what is not a result."""
        self.print(stderr(), Folded(text, 2))

    def expect(self, more: int) -> None:
        """Add to the total number of evaluations or builds."""
        self._bar.update(self._task, total=(self._bar.tasks[0].total or 0) + more)

    def show(self, done: int, total: int) -> None:
        """Set how many are done, and of how many."""
        self._bar.update(self._task, completed=done, total=total)

    def tell(self, doing: str) -> None:
        """Set the description of the current work."""
        self._bar.update(self._task, description=doing)

    def advance(self, doing: str | None = None) -> None:
        """Count one as done; `doing` replaces the description."""
        self._bar.update(self._task, advance=1, description=doing)

    def follow(self, doing: str, records: Iterable[Named]) -> Iterator[Named]:
        """Tell what is done with each record, and count it when the next one is asked for."""
        for each in records:
            self.tell(f"{doing} {each.name}")
            yield each
            self.advance()


def _take_away() -> None:
    """Clear the bar's line and show the cursor, without the bar's locks: the interrupted code may hold them."""
    os.write(_STDERR, b"\r\x1b[2K\x1b[?25h")


def _has_room() -> bool:
    """Whether the bar has a line to itself.

    A pipe's reader (tee, grep, less) usually writes to the same terminal, in the middle of the bar.
    """
    is_pipe = False
    with suppress(OSError, ValueError):  # closed, or not a file
        is_pipe = stat.S_ISFIFO(os.fstat(stdout().file.fileno()).st_mode)
    return stderr().is_interactive and not is_pipe
