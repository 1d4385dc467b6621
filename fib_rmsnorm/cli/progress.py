"""A progress bar that shares its terminal with results and notes."""

from __future__ import annotations

from typing import Any

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from fib_rmsnorm.evaluation.scheduler import Building
from fib_rmsnorm.reports.console import stderr
from fib_rmsnorm.reports.units import count


class EvaluationBar:
    """Counts evaluations, on stderr if that is a terminal; a context manager."""

    def __init__(self, total: int | None = None) -> None:
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=stderr(),
            transient=True,
            disable=not stderr().is_terminal,
        )
        self._task = self._bar.add_task("preparing", total=total)

    def __enter__(self) -> EvaluationBar:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Show it."""
        self._bar.start()

    def stop(self) -> None:
        """Take it away."""
        self._bar.stop()

    def print(self, console: Console, what: RenderableType, **options: Any) -> None:
        """Print to a console: above the bar if both are on a terminal, which else would run into it."""
        shared = self._bar.live.is_started and console.is_terminal
        (self._bar.console if shared else console).print(what, **options)

    def expect(self, total: int) -> None:
        """So many evaluations there will be."""
        self._bar.update(self._task, total=total)

    def show_building(self, event: Building) -> None:
        """Solutions are being built."""
        self._bar.update(self._task, description=f"building {count(event.solutions, 'solution')}")

    def advance(self) -> None:
        """One evaluation is done."""
        self._bar.update(self._task, advance=1, description="evaluating")
