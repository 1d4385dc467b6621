"""A Solution's runs in the order of time, and which of them changed its latency.

Each run is compared with the newest earlier one that was measured under the same conditions: the change is one that
`compare` would call faster or slower.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from fib_rmsnorm.analysis.comparing.comparison import (
    SolutionComparison,
    estimate_drift,
    judge,
    latencies,
    share_confidence,
)
from fib_rmsnorm.analysis.difference import Drift
from fib_rmsnorm.analysis.sections import DEFINITION, RunConditions
from fib_rmsnorm.analysis.trace_record import TraceRecord
from fib_rmsnorm.registry.selection import NamedWorkload, title_workloads


@dataclass(frozen=True)
class Run:
    """A Trace, and how it differs from the one before."""

    record: TraceRecord
    is_new_content: bool
    """Whether the run before had other sources."""
    change: SolutionComparison | None
    """The comparison with an earlier run; None without one to compare with."""
    verdict: str
    """`faster`, `slower`, `tie`, `now fails`, `fails`, `passes again`, `correct` (not timed), `first`, or the
    conditions that changed: `other timer`. Where the run before was of another version of the Definition, it ends with
    `definition`."""

    @property
    def is_change(self) -> bool:
        """Whether something certainly changed."""
        return self.verdict.startswith(("faster", "slower", "now fails", "passes again"))


@dataclass(frozen=True)
class SolutionHistory:
    """A Solution on a device."""

    definition: str
    solution: str
    hardware: str
    workloads: tuple[tuple[str, tuple[Run, ...]], ...]
    """The title of each Workload, and the runs on it, the oldest first."""

    @property
    def changes(self) -> list[tuple[str, Run]]:
        """The runs that changed something, each with the title of its Workload."""
        return [(title, run) for title, runs in self.workloads for run in runs if run.is_change]


@dataclass(frozen=True)
class Histories:
    """All that were asked for."""

    histories: tuple[SolutionHistory, ...]
    drift: Drift
    confidence: float
    """The confidence of each interval; together they have 95%."""


_Runs = list[TraceRecord]
_Home = tuple[str, str, str]
"""Definition, Solution and hardware."""


_Line = list[tuple[TraceRecord, TraceRecord | None]]
"""The runs on a Workload, each with what it is compared with: the newest earlier run of the same conditions; for a
failure, any of the same version of the Definition that passed."""


def find_histories(records: Iterable[TraceRecord]) -> Histories:
    """Put runs in the order of time and compare each with the one before. A Trace in two files is one run."""
    alone = {(r.definition, r.workload, r.solution, r.hardware, r.timestamp): r for r in records}
    runs = sorted(alone.values(), key=lambda record: record.timestamp)
    conditions = RunConditions(runs)
    homes: dict[_Home, dict[str, _Line]] = {
        home: {workload: _find_befores(mine, conditions) for workload, mine in workloads.items()}
        for home, workloads in _sort(runs).items()
    }
    lines = [line for found in homes.values() for line in found.values()]
    confidence = share_confidence(sum(before is not None and run.passed for line in lines for run, before in line))
    repeats: dict[tuple[str | None, ...], _Runs] = {}  # of equal sources under equal conditions
    for run in runs:
        key = run.definition, run.solution, run.workload, run.solution_sha256, *conditions.key(run)
        repeats.setdefault(key, []).append(run)
    drift = estimate_drift(map(latencies, repeats.values()))
    drift = replace(drift, may_rule=False)  # or a change between runs of equal sources would hide itself

    histories = []
    for home, found in homes.items():
        firsts = [line[0][0] for line in found.values()]
        titles = title_workloads(NamedWorkload(first.workload, first.axes, first.scalars) for first in firsts)
        told = ((titles[workload], _tell(line, conditions, drift, confidence)) for workload, line in found.items())
        histories.append(SolutionHistory(*home, tuple(told)))
    return Histories(tuple(histories), drift, confidence)


def _sort(runs: _Runs) -> dict[_Home, dict[str, _Runs]]:
    """By Solution and device, then by Workload, the smallest axes first."""
    homes: dict[_Home, dict[str, _Runs]] = {}
    for run in sorted(runs, key=lambda run: (run.solution, run.definition, run.hardware, *run.axes.values())):
        home = homes.setdefault((run.definition, run.solution, run.hardware), {})
        home.setdefault(run.workload, []).append(run)
    return homes


def _find_befores(runs: _Runs, conditions: RunConditions) -> _Line:
    found: _Line = []
    newest: dict[tuple[str | None, ...], TraceRecord] = {}
    passed: TraceRecord | None = None
    for run in runs:
        alike = conditions.equal_to(run, newest.values()) if run.is_native else []
        failing = not run.passed and passed and DEFINITION not in conditions.find_differing(passed, run)
        found.append((run, alike[-1] if alike else passed if failing else None))
        if run.is_native:
            newest.pop(conditions.key(run), None)  # in the order of time
            newest[conditions.key(run)] = run
        passed = run if run.is_native else passed
    return found


def _tell(line: _Line, conditions: RunConditions, drift: Drift, confidence: float) -> tuple[Run, ...]:
    told: list[Run] = []
    last: TraceRecord | None = None
    timed: TraceRecord | None = None
    for run, before in line:
        change = judge([before], [run], drift, confidence) if before else None
        is_new = last is not None and last.solution_sha256 != run.solution_sha256
        is_redefined = last is not None and DEFINITION in conditions.find_differing(last, run)
        verdict = _say(run, None if is_redefined else last, timed, change, conditions)
        if is_redefined and DEFINITION not in verdict:
            verdict += f", other {DEFINITION}"
        told.append(Run(run, is_new, change, verdict))
        last, timed = run, run if run.is_native else timed
    return tuple(told)


def _say(
    run: TraceRecord,
    last: TraceRecord | None,
    timed: TraceRecord | None,
    change: SolutionComparison | None,
    conditions: RunConditions,
) -> str:
    """The verdict on a run after the last and the last timed one."""
    if not run.passed:
        return "now fails" if last and last.passed else "fails"
    if run.interpreted:
        return "correct"
    again = "passes again" if last and not last.passed else ""
    if change is None:
        differing = ", ".join(conditions.find_differing(timed, run)) if timed else ""
        return again or (f"other {differing}" if differing else "first")
    told = change.verdict if not again or change.verdict in ("faster", "slower") else ""
    return ", ".join(filter(None, (again, told)))
