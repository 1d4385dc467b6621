"""A line for each evaluation as it arrives, and a table of all of them."""

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console
from rich.text import Text

from fib_rmsnorm.analysis.comparing.outputs import find_largest
from fib_rmsnorm.analysis.difference import RunLatency, find_interval, find_speedup, recorded
from fib_rmsnorm.analysis.results import Result, SectionResults, sum_up_run
from fib_rmsnorm.registry.selection import show_name
from fib_rmsnorm.reports.differences import largest_text
from fib_rmsnorm.reports.results import describe_doubts, speedup_text, summarize_ranking
from fib_rmsnorm.reports.text.console import Folded
from fib_rmsnorm.reports.text.document import LEAST_WIDTH, Doubt, Grid, Heading, Part, cut_name
from fib_rmsnorm.reports.text.units import (
    count,
    format_either_side,
    format_latency,
    format_percent,
    format_range,
    join_names,
)
from fib_rmsnorm.schema import Check, Performance, Trace, list_cases


class LiveTable:
    """The lines of evaluations as they arrive: names are cut where the console has no room for the numbers beside them.

    `names` and `titles` are those of all Solutions and Workloads to come.
    """

    def __init__(self, names: Iterable[str], titles: Iterable[str], console: Console) -> None:
        self._title_width = max(map(len, (*titles, "workload")))
        room = console.width - self._title_width - len(f"    {_NUMBERS}")
        self._name_width = min(max(map(len, (*names, "solution"))), max(room, LEAST_WIDTH))

    def header(self) -> Text:
        """The names of the columns."""
        return Text(f"{self._label('workload', 'solution')}  {_NUMBERS}", "dim")

    def line(self, told: Trace | Check, title: str, *, tells_why: bool = True) -> Folded:
        """One evaluation, or one verdict without a time; on a terminal, a reason goes on below the Solution's name.

        `title` is the Workload's; `tells_why` adds the reason for a failure.
        """
        label = self._label(title, cut_name(told.solution or "", self._name_width))
        return Folded(Text(f"{label}  ").append_text(result_text(told, tells_why=tells_why)), self._title_width + 2)

    def _label(self, workload: str, solution: str) -> str:
        return f"{workload:<{self._title_width}}  {solution:<{self._name_width}}"


_NUMBERS = "status   latency          of copy  speedup"


def result_text(told: Trace | Check, *, tells_why: bool = True) -> Text:
    """The status and the numbers of one evaluation, or of one verdict without a time."""
    check = told if isinstance(told, Check) else Check.of(told)
    line = Text(f"{check.status.value:<6}", "green" if check.passed else "bold red")
    performance = told.performance if isinstance(told, Trace) else None
    if performance:
        line.append(f"  {_describe_time(performance)}")
    elif check.passed:
        line.append(f"  {count(len(list_cases(check.correctness)), 'case')} judged")
    elif tells_why:
        line.append(f"  {first_line(check.log)}")
    if performance and performance.noisy and not performance.interpreted:
        line.append("  noisy", style="yellow")
    return line


def _describe_time(performance: Performance) -> str:
    if performance.interpreted:
        return "interpreted, so not timed"
    percent = performance.percent_of_copy
    share = format_percent(percent) if percent is not None else ""
    factor = speedup_text(performance, find_speedup(performance))
    parts = [f"{format_latency(performance.latency_ms):>8} {_either_side(performance):<7}", f"{share:>7}  {factor:>7}"]
    if (chain := performance.chain) and chain.chained_latency_ms is not None:
        both = [each for each in (chain.chained_latency_ms, chain.dependent_latency_ms) if each is not None]
        parts.append(f"{' / '.join(map(format_latency, both))} in a graph")
    elif chain:
        parts.append("not captured in a graph")
    return "  ".join(parts).rstrip()


def _either_side(own: Performance) -> str:
    return format_either_side(recorded(own.latency_ms, own.latency_low_ms, own.latency_high_ms))


def first_line(log: str) -> str:
    """The reason of a failure: the first line of its log."""
    return log.strip().partition("\n")[0]


def describe_load(traces: Iterable[Trace]) -> str:
    """The share of the cores that other processes took during the trials; empty where it was not measured."""
    clocks = (trace.performance.clocks for trace in traces if trace.performance)
    shares = [each.other_share for each in clocks if each and each.other_share is not None]
    return f"other processes took {format_range(shares, '{:.0%}'.format)} of the cores" if shares else ""


def describe_run(traces: Sequence[Trace]) -> Iterator[Part]:
    """The end of a run, of one Definition on one device: a table, the answer, and what to know about them."""
    section = sum_up_run(traces)
    timer = section.conditions.timer
    how = f": median latency ±, speedup; timer {timer}" if timer else ""
    yield Heading(f"{section.definition} on {section.conditions.hardware}{how}", 2)
    yield results_table(section)
    yield summarize_ranking(section)
    judged = ((trace.solution or "", case) for trace in traces for case in list_cases(Check.of(trace).correctness))
    if differences := [f"{largest_text(value)} ({name})" for name, value in find_largest(judged).items()]:
        yield f"Largest difference from the peer's outputs: {join_names(differences)}."
    yield from _describe_batch_invariance(traces)
    yield from describe_doubts(section)
    for each in section.workloads:
        if failed := next((result.record for result in each.results if not result.record.passed), None):
            yield Doubt(f"Full failure logs: fib-rmsnorm show {show_name(failed.solution, each.title)}")
            break
    if load := describe_load(traces):
        yield Doubt(f"During the trials, {load}.")


def _describe_batch_invariance(traces: Sequence[Trace]) -> Iterator[str]:
    """Whether rows have the same bits in batches of other sizes; of those that have not, the first row."""
    known = [check for check in map(Check.of, traces) if check.passed and check.batch_invariance]
    varying = {check.solution: check.batch_invariance for check in reversed(known) if check.batch_invariance != "yes"}
    if varying:
        yield f"Batch-invariant: all but {join_names([f'{name} ({found})' for name, found in varying.items()])}."
    elif known:
        yield "Batch-invariant: yes."


def results_table(section: SectionResults) -> Grid:
    """Median latencies of passed evaluations, Solutions by Workload, with the factor over the reference."""
    columns = []
    rows = sorted({result.label for result in section.results})
    for workload in section.workloads:
        cells = {result.label: _cell(result) for result in workload.results}
        timed = next((result.record for result in workload.results if result.record.reference_latency_ms), None)
        reference = RunLatency.of_reference(timed) if timed else None
        first = (format_latency(reference.ms), format_either_side(reference.interval_ms), "") if reference else _NO_CELL
        columns.append([first, *(cells.get(row, _NO_CELL) for row in rows)])
    if all(column[0] == _NO_CELL for column in columns):
        columns = [column[1:] for column in columns]
    else:
        rows = ["reference", *rows]
    names = [f"{workload.title:>{_LATENCY_WIDTH}}" for workload in section.workloads]
    return Grid(("", *names), zip(rows, *map(_align, columns), strict=True))


_LATENCY_WIDTH = len("17.6 us")
_NO_CELL = ("", "", "")


def _align(cells: Sequence[tuple[str, str, str]]) -> list[str]:
    """Cells of a column, with the latency, the interval and the factor below each other."""
    latency, interval, factor = (max(map(len, parts)) for parts in zip(*cells, strict=True))
    latency = max(latency, _LATENCY_WIDTH)
    return [
        f"{one:>{latency}}{f' {two}'.ljust(interval + 1) if interval else ''}  {three:>{factor}}".rstrip()
        for one, two, three in cells
    ]


def _cell(result: Result) -> tuple[str, str, str]:
    """The latency, its interval where that is wide, and the factor over the reference."""
    if not result.record.is_native or not result.record.latency_ms:
        return (result.mark, "", "")
    mark = "*" * bool(result.record.noisy)
    factor = speedup_text(result.record, result.speedup)
    return f"{mark}{format_latency(result.record.latency_ms)}", format_either_side(find_interval(result.record)), factor


def latency_text(performance: Performance) -> str:
    """`*2.00 us ±9%`, as in the table."""
    mark = "*" * bool(performance.noisy)
    return f"{mark}{format_latency(performance.latency_ms)} {_either_side(performance)}".rstrip()
