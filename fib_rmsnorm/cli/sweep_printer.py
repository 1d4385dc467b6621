"""Print a sweep while it runs: one line per result, and notes of what it is doing; at the end a table."""

from collections.abc import Mapping, Sequence
from json import dumps
from math import prod

from rich.text import Text

from fib_rmsnorm.cli.printing import note, say
from fib_rmsnorm.cli.progress import ProgressBar
from fib_rmsnorm.evaluation.plan import Skip
from fib_rmsnorm.evaluation.run_config import RunConfig
from fib_rmsnorm.evaluation.scheduler import Building, Judged
from fib_rmsnorm.inspection.facts import Explanation
from fib_rmsnorm.machine.capabilities import is_interpreted
from fib_rmsnorm.machine.devices import Device
from fib_rmsnorm.registry.selection import NamedWorkload, row_size, title_workloads
from fib_rmsnorm.reports.evaluations import result_text
from fib_rmsnorm.reports.explanation import TRAFFIC_COLUMNS, traffic_cells
from fib_rmsnorm.reports.text.console import Folded, stderr, stdout
from fib_rmsnorm.reports.text.document import Grid
from fib_rmsnorm.reports.text.units import assignments, count, format_latency, format_percent
from fib_rmsnorm.schema import Trace, Workload
from fib_rmsnorm.tuning.sweep import SweepEvent, TrialsStarted, collect_figures
from fib_rmsnorm.tuning.tunable import Parameters, Tunable, parameters_of

_FIGURE_COLUMNS = (">threads/block", *TRAFFIC_COLUMNS, ">occupancy", ">registers", ">spilled bytes")


class SweepPrinter:
    """Prints each result of one Definition once, then a table of the newest for each combination and batch."""

    def __init__(self, bar: ProgressBar, *, as_json: bool) -> None:
        self._as_json = as_json
        self._bar = bar
        self._traces: dict[tuple[Parameters, int], Trace] = {}
        self._axis = "batch"

    def show(self, event: SweepEvent) -> None:
        """Print one event."""
        if isinstance(event, TrialsStarted):
            self._bar.expect(event.combinations * len(event.workloads))
            self._bar.note(_describe(event))
        elif isinstance(event, Building):
            self._bar.tell(f"building {event.solutions}")
            self._bar.note(f"building {count(event.solutions, 'combination')}")
        elif isinstance(event, Judged):
            at = NamedWorkload.of(event.workload).title()
            self._bar.tell(f"{at}: {event.right} of {event.solutions} correct; they are timed when all are judged")
        elif isinstance(event, Skip):
            self._bar.print(stderr(), f"Skipped {event.solution or event.definition}: {event.reason}")
        else:
            parameters = parameters_of(event)
            ((self._axis, batch),) = event.workload.axes.items()
            self._traces[parameters, batch] = event
            self._bar.advance("trying")
            if self._as_json:
                self._bar.print(stdout(), event.model_dump_json())
            else:
                line = f"{assignments(event.workload.axes):<11}  {assignments(dict(parameters))}  "
                self._bar.print(stdout(), Folded(Text(line).append_text(result_text(event)), 2))

    def print_results(self, tunable: Tunable, device: Device, workloads: Sequence[Workload], config: RunConfig) -> int:
        """Print the latencies of all combinations, and what the compiler made of each; return how many passed."""
        interpreted, name = is_interpreted(tunable.solution, device), tunable.definition.name
        if not self._traces and not interpreted:  # what cannot be interpreted still compiles
            return 0
        batches = sorted({batch for _, batch in self._traces})
        at = {row_size(each.axes) or 0: each for each in workloads}
        batch = max(at) if interpreted else batches[-1]
        with ProgressBar(doing="inspecting the compiled code"):
            figures = collect_figures(tunable, at[batch], device, config)
        if self._as_json:
            facts = {"arch", "kernels", "launches"}
            told = [{"parameters": dict(each), **found.model_dump(include=facts)} for each, found in figures.items()]
            say(dumps({"definition": name, "figures": told}))
        else:
            title = f"\n{name}: median latency (* the fastest at a batch size)"
            for found in [*figures.values()][:1]:
                title += f", and the compiled code at {self._axis}={batch} for {found.arch}"
            say(title, self._table(batches, figures))
        passed = [trace.performance for trace in self._traces.values() if trace.performance]
        failed, noisy = len(self._traces) - len(passed), sum(bool(each.noisy) for each in passed)
        if interpreted:
            sizes = ", ".join(f"{self._axis}={each}" for each in batches)
            what = f"{len(passed)} of {len(self._traces)} correct at {sizes}; nothing was timed"
            note(f"{name}: {what if sizes else 'nothing was judged or timed'}")
        elif not self._as_json and (failed or noisy):
            note(f"{failed} failed, {noisy} noisy of {len(self._traces)}")
        return len(passed)

    def _table(self, batches: Sequence[int], figures: Mapping[Parameters, Explanation]) -> Grid:
        """Combinations by batch, and what the compiler made of each; the best of each batch is marked."""
        best: dict[int, float] = {}
        for (_, batch), trace in self._traces.items():
            if trace.performance and not trace.performance.interpreted:
                best[batch] = min(best.get(batch, trace.performance.latency_ms), trace.performance.latency_ms)
        combinations = sorted({*figures, *(parameters for parameters, _ in self._traces)})
        names = [*dict(combinations[0]), *(f"{self._axis}={batch}" for batch in batches)] if combinations else []
        return Grid(
            [*(f">{name}" for name in names), *_FIGURE_COLUMNS],
            [
                (
                    *(str(value) for _, value in parameters),
                    *(_cell(self._traces.get((parameters, batch)), best.get(batch)) for batch in batches),
                    *_figure_cells(figures.get(parameters)),
                )
                for parameters in combinations
            ],
        )


def _describe(started: TrialsStarted) -> str:
    """`13 of 26 combinations at batch=1, batch=8`."""
    titles = title_workloads(map(NamedWorkload.of, started.workloads)).values()
    few = f"{started.combinations} of " if started.combinations < started.total else ""
    what = f"{few}{count(started.total, 'combination')} at {', '.join(titles)}"
    return f"the best {what}, once more" if started.is_final else what


def _figure_cells(found: Explanation | None) -> Sequence[str]:
    """Facts of a combination's compiled code; empty where they are unknown."""
    if found is None:
        return [""] * len(_FIGURE_COLUMNS)
    (launch,) = found.launches
    kernel = found.kernels[launch.kernel_number]
    return (
        str(prod(launch.block)),
        *traffic_cells(launch.traffic),
        "?" if launch.occupancy is None else format_percent(100 * launch.occupancy.share),
        "?" if kernel.registers is None else str(kernel.registers),
        "?" if kernel.spill_bytes is None else str(kernel.spill_bytes),
    )


def _cell(trace: Trace | None, best_ms: float | None) -> str:
    if trace is None:
        return ""
    performance = trace.performance
    if performance is None:
        return "failed"
    if performance.interpreted:
        return "passed"
    return f"{'* ' * (performance.latency_ms == best_ms)}{format_latency(performance.latency_ms)}"
