"""Print a sweep as it goes: a live table on a terminal, a line for each result elsewhere."""

from __future__ import annotations

from types import TracebackType

from rich.live import Live

from fib_rmsnorm.evaluation.plan import Skip
from fib_rmsnorm.evaluation.tuning.sweep import Tried
from fib_rmsnorm.reports.console import stderr, stdout
from fib_rmsnorm.reports.tuning import SweepResults, trial_line


class SweepPrinter:
    """Shows each result of one Definition once; a context manager, for the live table."""

    def __init__(self, *, as_json: bool) -> None:
        self.results = SweepResults()
        self._as_json = as_json
        is_live = stdout().is_terminal and not as_json
        self._live = Live(console=stdout(), auto_refresh=False, transient=True) if is_live else None

    def __enter__(self) -> SweepPrinter:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    def show(self, event: Tried | Skip) -> None:
        """Print one event."""
        if isinstance(event, Skip):
            # Past the live table, which shares its terminal.
            console = self._live.console if self._live and stderr().is_terminal else stderr()
            console.print(f"Skipped {event.solution or event.definition}: {event.reason}")
            return
        self.results.add(event.trace)
        if self._as_json:
            stdout().print(event.trace.model_dump_json())
        elif self._live:
            self._live.update(self.results.table(), refresh=True)
        else:
            stdout().print(trial_line(event.trace))
