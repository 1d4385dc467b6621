"""What a session tells of one version of a kernel: the record that `--json` prints and that `serve` sends."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, computed_field

from fib_rmsnorm.schema import EvaluationStatus

REFUSED = "REFUSED"
"""The status of a version whose files cannot be read as a kernel, so nothing was built."""
ABANDONED = "ABANDONED"
"""The status of a version that another replaced before it was judged."""


class WorkloadVerdict(BaseModel):
    """Whether a version is right on one Workload."""

    model_config = ConfigDict(frozen=True)

    axes: dict[str, int]
    title: str
    """What tells the Workload from the others: its axes, with its scalars where another one has the same axes."""
    status: EvaluationStatus
    cases: int
    """The number of judged cases."""
    log: str
    """Why it failed, or what it printed."""


class Rival(BaseModel):
    """A Solution that was timed in turn with a version."""

    model_config = ConfigDict(frozen=True)

    solution: str
    latency_ms: float | None
    """The median latency; None if it failed."""
    ratio: float | None
    """Its latency over the version's, above 1 if the version is faster; None if either cannot be trusted."""
    suspect: list[str]
    """Reasons not to trust its latency."""


class VersionTiming(BaseModel):
    """How fast a version is on one Workload."""

    model_config = ConfigDict(frozen=True)

    axes: dict[str, int]
    title: str
    """As of a verdict."""
    latency_ms: float
    latency_low_ms: float | None
    latency_high_ms: float | None
    percent_of_copy: float | None
    """The speed in percent of a copy's of the same bytes; None if no copy can be trusted."""
    suspect: list[str]
    """Reasons not to trust the latency."""
    before: Rival | None
    """The last version before it that was right."""
    baseline: Rival | None


class Version(BaseModel):
    """One version of a kernel: its verdicts, and its timings as far as it has been timed."""

    model_config = ConfigDict(frozen=True)

    number: int
    """1 for the first version of the session."""
    kernel: str
    """The name of its file or folder."""
    definition: str
    hardware: str
    """The device that it is evaluated on."""
    started_at: str
    """When its evaluation began: UTC, ISO 8601."""
    sha256: str | None = None
    """A digest of its sources and spec; None if they cannot be read."""
    planned: list[dict[str, int]] = []
    """The axes of the Workloads to judge it on."""
    titles: list[str] = []
    """What tells these Workloads from each other."""
    verdicts: list[WorkloadVerdict] = []
    timings: list[VersionTiming] = []
    refused: str = ""
    """Why its files cannot be read as a kernel."""
    note: str = ""
    """What is left out, and why."""
    done: bool = False
    """Whether nothing will be added to it."""
    abandoned: bool = False
    """Whether another version replaced it before it was judged and timed."""
    build_s: float | None = None
    verdict_s: float | None = None
    """Seconds from the start to the verdict, the build included."""
    timed_s: float | None = None
    """Seconds from the start to the last timing."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def status(self) -> str:
        """PASSED if it is right on every planned Workload, else the status of the first failure."""
        if self.refused:
            return REFUSED
        failed = [verdict.status.value for verdict in self.verdicts if verdict.status is not EvaluationStatus.PASSED]
        if failed:
            return str(failed[0])
        return "PASSED" if self.planned and len(self.verdicts) == len(self.planned) else ABANDONED

    @property
    def passed(self) -> bool:
        """Whether it is right on every planned Workload."""
        return self.status == "PASSED"

    @property
    def failures(self) -> list[WorkloadVerdict]:
        """The verdicts that say it is wrong."""
        return [verdict for verdict in self.verdicts if verdict.status is not EvaluationStatus.PASSED]
