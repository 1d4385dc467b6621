"""Results of a sweep as they arrive, and its tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING

from rich.text import Text

from fib_rmsnorm.reports.explanation import TRAFFIC_COLUMNS, traffic_cells
from fib_rmsnorm.reports.live.evaluations import result_text
from fib_rmsnorm.reports.text.document import Grid
from fib_rmsnorm.reports.text.units import assignments, format_latency, format_percent
from fib_rmsnorm.schema import Trace
from fib_rmsnorm.tuning.tunable import Parameters, parameters_of

if TYPE_CHECKING:
    from fib_rmsnorm.inspection.facts import Explanation

_FIGURE_COLUMNS = (">threads/block", *TRAFFIC_COLUMNS, ">occupancy", ">registers", ">spilled bytes")


class SweepResults:
    """The results of one Definition so far, the newest for each batch and combination."""

    def __init__(self) -> None:
        self._traces: dict[tuple[Parameters, int], Trace] = {}
        self._axis = "batch"

    def add(self, trace: Trace) -> None:
        """Take a Trace with parameters."""
        ((self._axis, batch),) = trace.workload.axes.items()
        self._traces[parameters_of(trace), batch] = trace

    def name_batch(self, batch: int) -> str:
        """`batch=8`, with the name of the Definition's variable axis."""
        return f"{self._axis}={batch}"

    @property
    def batches(self) -> list[int]:
        """The batches tried so far."""
        return sorted({batch for _, batch in self._traces})

    def table(self, figures: Mapping[Parameters, Explanation]) -> Grid:
        """Combinations by batch, and what the compiler made of each; the best of each batch is marked."""
        best = {batch: self._best_ms(batch) for batch in self.batches}
        combinations = sorted({*figures, *(parameters for parameters, _ in self._traces)})
        names = [*dict(combinations[0]), *map(self.name_batch, best)] if combinations else []
        return Grid(
            [*(f">{name}" for name in names), *_FIGURE_COLUMNS],
            [
                (
                    *(str(value) for _, value in parameters),
                    *(_cell(self._traces.get((parameters, batch)), best[batch]) for batch in best),
                    *_figure_cells(figures.get(parameters)),
                )
                for parameters in combinations
            ],
        )

    def _best_ms(self, batch: int) -> float | None:
        mine = [trace.performance for (_, size), trace in self._traces.items() if size == batch]
        return min((each.latency_ms for each in mine if each and not each.interpreted), default=None)

    @property
    def outcomes(self) -> tuple[int, int, int]:
        """The number of evaluations that passed, that failed, and that are noisy."""
        passed = [trace.performance for trace in self._traces.values() if trace.performance]
        return len(passed), len(self._traces) - len(passed), sum(bool(each.noisy) for each in passed)


def trial_line(trace: Trace) -> Text:
    """One evaluation in one line."""
    what = f"{assignments(trace.workload.axes):<11}  {assignments(dict(parameters_of(trace)))}  "
    return Text(what).append_text(result_text(trace))


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
