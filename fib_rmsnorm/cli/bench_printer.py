"""Print a bench while it runs: results on stdout, the progress bar and notes on stderr."""

from collections import Counter
from pathlib import Path

from fib_rmsnorm.cli.program import BAD_INPUT, KERNEL_FAILED
from fib_rmsnorm.cli.progress import ProgressBar
from fib_rmsnorm.evaluation.bench import BenchEvent, Made, Started, Told
from fib_rmsnorm.evaluation.plan import Skip, describe_large
from fib_rmsnorm.evaluation.scheduler import Building, Evaluated, Judged
from fib_rmsnorm.languages import INTERPRETER
from fib_rmsnorm.registry.selection import NamedWorkload, describe_lacking
from fib_rmsnorm.reports.evaluations import LiveTable, describe_run
from fib_rmsnorm.reports.legend import POINTER
from fib_rmsnorm.reports.text.console import stderr, stdout
from fib_rmsnorm.reports.text.document import print_parts
from fib_rmsnorm.reports.text.units import count, join_names
from fib_rmsnorm.schema import Trace, Workload


class BenchPrinter:
    """Prints each event once."""

    def __init__(self, root: Path, bar: ProgressBar, *, as_json: bool) -> None:
        self._root = root
        self._bar = bar
        self._as_json = as_json
        self._traces: list[Trace] = []
        self._skips: list[Skip] = []
        self._resumed = 0
        self._table = LiveTable((), (), stdout())
        self._titles: dict[str, dict[str, str]] = {}
        """The titles of the Workloads, by Definition, then by uuid."""
        self._names: set[str] = set()
        """The names of the Solutions."""

    def show(self, event: BenchEvent) -> None:
        """Print one event."""
        if isinstance(event, Made):
            self._bar.print(stderr(), f"Made {event.what}: {event.path.relative_to(self._root)}")
        elif isinstance(event, Started):
            self._show_plan(event)
        elif isinstance(event, Told):
            self._bar.note(event.text)
        elif isinstance(event, Building):
            self._bar.tell(f"building {count(event.solutions, 'solution')}")
        elif isinstance(event, Judged):
            self._bar.tell(
                f"{self._title(event.definition, event.workload)}: {event.right} of {event.solutions} correct"
            )
        elif isinstance(event, Skip):
            self._skips.append(event)
        else:
            self._show_trace(event)

    def _show_plan(self, event: Started) -> None:
        """Print what follows; on a cluster, once for each model."""
        is_first = not self._names
        self._names |= {solution.name for group in event.plan.groups for solution in group.solutions}
        self._titles |= event.plan.titles
        self._bar.expect(event.plan.evaluations)
        if event.plan.lacking:
            self._bar.note(f"Skipped: {describe_lacking(event.plan.lacking)}")
        if event.plan.large:
            self._bar.note(f"Skipped: {describe_large(event.plan.large)}")
        devices = [f"{many} x {model}" if many > 1 else model for model, many in Counter(event.hardware).items()]
        self._bar.print(stderr(), f"{count(event.plan.evaluations, 'evaluation')} on {' + '.join(devices)}")
        titles = (title for mine in self._titles.values() for title in mine.values())
        self._table = LiveTable(self._names, titles, stdout())
        if is_first and not self._as_json:
            self._bar.print(stdout(), self._table.header())

    def _show_trace(self, event: Evaluated) -> None:
        self._traces.append(event.trace)
        self._resumed += event.is_resumed
        trace = event.trace
        title = self._title(trace.definition, trace.workload)
        line = trace.model_dump_json() if self._as_json else self._table.line(trace, title)
        self._bar.print(stdout(), line)
        self._bar.advance("evaluating")

    def _title(self, definition: str, workload: Workload) -> str:
        """The Workload's title; only its axes if nothing was planned on it."""
        named = NamedWorkload.of(workload)
        return self._titles.get(definition, {}).get(named.uuid) or named.title()

    def finish(self, output: Path | None) -> int:
        """Remove the bar, print the tables and the skipped evaluations, and return the exit code."""
        self._bar.stop()
        failed = sum(trace.status != "PASSED" for trace in self._traces)
        if self._traces and not self._as_json:
            groups: dict[tuple[str, str], list[Trace]] = {}
            for trace in self._traces:
                groups.setdefault((trace.definition, trace.hardware.removesuffix(INTERPRETER)), []).append(trace)
            for _, mine in sorted(groups.items()):
                stdout().print()
                print_parts(describe_run(mine), stdout())
            stdout().print(POINTER)
        self._print_skips()
        resumed = f" ({self._resumed} resumed from earlier runs)" if self._resumed else ""
        where = f"; wrote {output}" if output and self._traces else ""
        stderr().print(f"{len(self._traces) - failed} passed, {failed} failed{resumed}{where}")
        if failed or any(skip.is_failure for skip in self._skips):
            return KERNEL_FAILED
        return 0 if self._traces else BAD_INPUT

    def _print_skips(self) -> None:
        """Print each reason once, with what it is of."""
        reasons: dict[tuple[bool, str], list[str]] = {}
        for skip in self._skips:
            where = f" at {self._title(skip.definition, skip.workload)}" if skip.workload is not None else ""
            reasons.setdefault((skip.is_failure, skip.reason), []).append(f"{skip.solution or skip.definition}{where}")
        for (is_failure, reason), names in reasons.items():
            self._bar.note(f"{'Failed' if is_failure else 'Skipped'} {join_names(names)}: {reason}")
