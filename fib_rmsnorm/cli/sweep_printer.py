"""Print a sweep while it runs: one line per result, and notes of what it is doing."""

from __future__ import annotations

from json import dumps

from fib_rmsnorm.cli.printing import note, say
from fib_rmsnorm.cli.progress import ProgressBar
from fib_rmsnorm.evaluation.plan import Skip
from fib_rmsnorm.evaluation.run_config import RunConfig
from fib_rmsnorm.evaluation.scheduler import Building, Judged
from fib_rmsnorm.machine.capabilities import is_interpreted
from fib_rmsnorm.machine.devices import Device
from fib_rmsnorm.registry.workload_titles import NamedWorkload, title_workloads
from fib_rmsnorm.reports.live.sweep import SweepResults, trial_line
from fib_rmsnorm.reports.text.console import Folded, stderr, stdout
from fib_rmsnorm.reports.text.units import count
from fib_rmsnorm.tuning.sweep import SweepEvent, SweepOptions, TrialsStarted, collect_figures
from fib_rmsnorm.tuning.tunable import Tunable


class SweepPrinter:
    """Prints each result of one Definition once."""

    def __init__(self, bar: ProgressBar, *, as_json: bool) -> None:
        self.results = SweepResults()
        self._as_json = as_json
        self._bar = bar
        self._expected = 0

    def show(self, event: SweepEvent) -> None:
        """Print one event."""
        if isinstance(event, TrialsStarted):
            self._expected += event.combinations * len(event.workloads)
            self._bar.expect(self._expected)
            self._note(_describe(event))
        elif isinstance(event, Building):
            self._bar.tell(f"building {event.solutions}")
            self._note(f"building {count(event.solutions, 'combination')}")
        elif isinstance(event, Judged):
            at = NamedWorkload.of(event.workload).title()
            self._bar.tell(f"{at}: {event.right} of {event.solutions} correct; they are timed when all are judged")
        elif isinstance(event, Skip):
            self._bar.print(stderr(), f"Skipped {event.solution or event.definition}: {event.reason}")
        else:
            self.results.add(event)
            self._bar.advance("trying")
            if self._as_json:
                self._bar.print(stdout(), event.model_dump_json())
            else:
                self._bar.print(stdout(), Folded(trial_line(event), 2))

    def _note(self, text: str) -> None:
        """Tell what begins."""
        self._bar.print(stderr(), Folded(text, 2))


def _describe(started: TrialsStarted) -> str:
    """`13 of 26 combinations at batch=1, batch=8`."""
    titles = title_workloads(map(NamedWorkload.of, started.workloads)).values()
    few = f"{started.combinations} of " if started.combinations < started.total else ""
    what = f"{few}{count(started.total, 'combination')} at {', '.join(titles)}"
    return f"the best {what}, once more" if started.is_final else what


def print_results(
    tunable: Tunable, results: SweepResults, device: Device, options: SweepOptions, config: RunConfig, *, as_json: bool
) -> None:
    """Print the latencies of a Definition's combinations, and what the compiler made of each."""
    interpreted, name = is_interpreted(tunable.solution, device), tunable.definition.name
    batch = max(options.batch_sizes) if interpreted else results.batches[-1]
    with ProgressBar(doing="inspecting the compiled code"):
        figures = collect_figures(tunable, tunable.combinations(options.chosen), batch, device, config)
    if as_json:
        facts = {"arch", "kernels", "launches"}
        told = [{"parameters": dict(each), **found.model_dump(include=facts)} for each, found in figures.items()]
        say(dumps({"definition": name, "figures": told}))
    else:
        title = f"\n{name}: median latency (* the fastest at a batch size)"
        for found in [*figures.values()][:1]:
            title += f", and the compiled code at {results.name_batch(batch)} for {found.arch}"
        say(title, results.table(figures))
    passed, failed, noisy = results.outcomes
    if interpreted:
        sizes = ", ".join(map(results.name_batch, results.batches))
        what = f"{passed} of {passed + failed} correct at {sizes}; nothing was timed"
        note(f"{name}: {what if sizes else 'nothing was judged or timed'}")
    elif not as_json and (failed or noisy):
        note(f"{failed} failed, {noisy} noisy of {passed + failed}")
