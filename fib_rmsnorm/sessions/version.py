"""The results of one version of a kernel: its verdicts and its timings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pydantic import BaseModel, ConfigDict, computed_field

from fib_rmsnorm.schema import Check, EvaluationStatus, Performance, Trace, Workload, list_cases

ABANDONED = "ABANDONED"
"""The status of a version that another replaced before it was judged."""


class WorkloadVerdict(BaseModel):
    """Whether a version is correct on one Workload."""

    model_config = ConfigDict(frozen=True)

    axes: dict[str, int]
    title: str
    """The Workload's name: its axes, with its scalars if another one has the same axes."""
    status: EvaluationStatus
    cases: int
    """The number of judged cases."""
    failed_case: str | None
    """The first judged case in which it was wrong; None if no output was."""
    log: str
    """Why it failed, or what it printed."""
    is_cheat: bool = False
    """Whether it failed by doing what an honest kernel has no reason to do, such as replacing the timer."""
    batch_invariance: str | None = None
    """`yes`, or the first row that has other bits in a batch of another size; None if that is unknown."""


class Rival(BaseModel):
    """A Solution that was timed in turn with a version."""

    model_config = ConfigDict(frozen=True)

    solution: str
    latency_ms: float | None
    """The median latency; None if it failed."""
    ratio: float | None
    """Its latency over the version's, above 1 if the version is faster; None if it failed."""
    noisy: list[str]
    """Conditions that the interval cannot show: see the schema's Performance."""


class VersionTiming(BaseModel):
    """How fast a version is on one Workload."""

    model_config = ConfigDict(frozen=True)

    axes: dict[str, int]
    title: str
    """As in a verdict."""
    performance: Performance
    before: Rival | None
    """The last correct version before it."""
    rivals: list[Rival]
    """The registered Solutions that were timed in turn with it."""

    @property
    def latency_ms(self) -> float:
        """The median latency."""
        return self.performance.latency_ms


class Version(BaseModel):
    """One version of a kernel: its verdicts, and its timings as far as it has been timed."""

    model_config = ConfigDict(frozen=True)

    number: int
    """1 for the first version of the session."""
    kernel: str
    """The name of its file or folder."""
    files: list[str] = []
    """The names of its files."""
    definition: str
    hardware: str
    """The device that it is evaluated on."""
    started_at: str
    """When its evaluation began: UTC, ISO 8601."""
    sha256: str | None = None
    """A digest of its sources and spec; None if they cannot be read."""
    titles: list[str] = []
    """The names of the Workloads to judge it on."""
    verdicts: list[WorkloadVerdict] = []
    timings: list[VersionTiming] = []
    refused: str = ""
    """Why its files cannot be read as a kernel."""
    hint: str = ""
    """The remedy."""
    note: str = ""
    """The part that is left out, and why."""
    done: bool = False
    """Whether nothing will be added to it."""
    abandoned: bool = False
    """Whether another version replaced it before it was judged and timed."""
    build_s: float | None = None
    verdict_s: float | None = None
    """Seconds from the start to the verdict, the build included."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def status(self) -> str:
        """PASSED if it is correct on every planned Workload, else the status of the first failure."""
        if self.refused:
            return EvaluationStatus.COMPILE_ERROR.value
        if self.failures:
            return str(self.failures[0].status.value)
        return "PASSED" if self.titles and len(self.verdicts) == len(self.titles) else ABANDONED

    @property
    def passed(self) -> bool:
        """Whether it is correct on every planned Workload."""
        return self.status == "PASSED"

    @property
    def is_cheat(self) -> bool:
        """Whether it failed by doing what an honest kernel has no reason to do."""
        return any(verdict.is_cheat for verdict in self.verdicts)

    @property
    def batch_invariance(self) -> str | None:
        """`yes`, or the first row on any Workload that has other bits in a batch of another size; None if unknown."""
        known = [verdict.batch_invariance for verdict in self.verdicts if verdict.batch_invariance]
        return next((told for told in known if told != "yes"), known[0] if known else None)

    @property
    def failures(self) -> list[WorkloadVerdict]:
        """The verdicts on Workloads where it is wrong."""
        return [verdict for verdict in self.verdicts if verdict.status is not EvaluationStatus.PASSED]


def describe_verdict(check: Check, title: str) -> WorkloadVerdict:
    """The judge's verdict on a version, for a Workload with this title."""
    cases = [case.case for case in list_cases(check.correctness)]
    # A fault begins with the name of its case; named mistakes stand above the faults.
    failed = (name for line in check.log.splitlines() for name in cases if line.startswith(f"{name}: "))
    return WorkloadVerdict(
        axes=check.workload.axes,
        title=title,
        status=check.status,
        cases=len(cases),
        failed_case=None if check.passed else next(failed, None),
        log=check.log,
        is_cheat=check.is_cheat is True,
        batch_invariance=check.batch_invariance,
    )


def add_timing(
    version: Version,
    workload: Workload,
    title: str,
    traces: Mapping[str, Trace],
    name: str,
    before: str | None,
    rivals: Iterable[str],
) -> Version:
    """A copy of a version with its times on a Workload, by the Traces of those that were timed in turn, by name.

    `name` is the version's, `before` that of the version before it, if there is one. If a timed call was wrong, or the
    worker ended, that is the verdict on the Workload.
    """
    own = traces.get(name)
    performance = own.evaluation.performance if own and own.evaluation else None
    if performance is None:
        verdicts = [verdict for verdict in version.verdicts if verdict.title != title]
        if own:
            failure = describe_verdict(Check.of(own), title)
        else:
            why = "it was right before, and failed when it was judged again"
            status = EvaluationStatus.RUNTIME_ERROR
            failure = WorkloadVerdict(
                axes=workload.axes, title=title, status=status, cases=0, failed_case=None, log=why
            )
        return version.model_copy(update={"verdicts": [*verdicts, failure]})
    timing = VersionTiming(
        axes=workload.axes,
        title=title,
        performance=performance,
        before=None if before is None else _describe_rival(before, traces, performance.latency_ms),
        rivals=[_describe_rival(rival, traces, performance.latency_ms) for rival in rivals],
    )
    return version.model_copy(update={"timings": [*version.timings, timing]})


def _describe_rival(name: str, traces: Mapping[str, Trace], mine_ms: float) -> Rival:
    trace = traces.get(name)
    performance = trace.evaluation.performance if trace and trace.evaluation else None
    if performance is None:
        return Rival(solution=name, latency_ms=None, ratio=None, noisy=[])
    ratio = performance.latency_ms / mine_ms if mine_ms else None
    return Rival(solution=name, latency_ms=performance.latency_ms, ratio=ratio, noisy=performance.noisy)
