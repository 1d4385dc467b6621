"""Print a sweep while it runs: a live table on a terminal, else one line per result."""

from __future__ import annotations

from fib_rmsnorm.cli.progress import ProgressBar
from fib_rmsnorm.evaluation.plan import Skip
from fib_rmsnorm.reports.live.sweep import SweepResults, trial_line
from fib_rmsnorm.reports.text.console import stderr, stdout
from fib_rmsnorm.reports.text.folding import Folded
from fib_rmsnorm.tuning.sweep import Tried


class SweepPrinter:
    """Prints each result of one Definition once. A context manager, because it owns the bar."""

    def __init__(self, *, as_json: bool) -> None:
        self.results = SweepResults()
        self._as_json = as_json
        self._bar = ProgressBar(doing="building")

    def __enter__(self) -> SweepPrinter:
        self._bar.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def show(self, event: Tried | Skip) -> None:
        """Print one event."""
        if isinstance(event, Skip):
            self._bar.print(stderr(), f"Skipped {event.solution or event.definition}: {event.reason}")
            return
        self.results.add(event.trace)
        self._bar.tell(f"{self.results.passes + self.results.failures} tried")
        if self._as_json:
            self._bar.print(stdout(), event.trace.model_dump_json())
        elif not self._bar.show_below(self.results.table()):
            stdout().print(Folded(trial_line(event.trace), 2))
