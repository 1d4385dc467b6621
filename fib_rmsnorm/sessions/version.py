"""The results of one version of a kernel: its verdicts and its timings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from fib_rmsnorm.errors import InputError, UnsuitedError
from fib_rmsnorm.registry.selection import NamedWorkload, title_workloads
from fib_rmsnorm.schema import Check, EvaluationStatus, Solution, Trace, Workload


@dataclass(frozen=True)
class Version:
    """One version of a kernel: its verdicts, and its timings as far as it has been timed."""

    number: int
    """1 for the first version of the session."""
    kernel: str
    """The name of its file or folder."""
    definition: str
    hardware: str
    """The device that it is evaluated on."""
    solution: Solution | None = None
    """The kernel as it is called; None until the right call is known."""
    workloads: Sequence[Workload] = ()
    """The Workloads to judge it on."""
    checks: Mapping[str, Check] = field(default_factory=dict)
    """The verdicts, by the uuid of the Workload, in the order of the Workloads."""
    traces: Sequence[Trace] = ()
    """Its evaluations if it is to be timed, and those of the Solutions that were timed in turn with it."""
    before: str = ""
    """The Solution of the last correct version before it, if it was timed in turn with that."""
    refused: str = ""
    """Why its files cannot be read as a kernel."""
    hint: str = ""
    """The remedy."""
    skipped: str = ""
    """Why the device cannot run it."""
    note: str = ""
    """How it is called, unless with its Definition's inputs in order; the part that is left out, and why."""
    far_rows: str | None = None
    """How it fails on rows beyond 2^31 elements; empty if it does not, None if that was not tried."""
    empty_batch: str | None = None
    """How it fails without any rows; empty if it does not, None if that was not tried."""
    done: bool = False
    """Whether nothing will be added to it."""
    build_s: float | None = None
    verdict_s: float | None = None
    """Seconds from the start to the verdict, the build included; None before."""

    @property
    def status(self) -> str:
        """PASSED if it is correct on every planned Workload, else the status of the first failure.

        SKIPPED if the device cannot run it; ABANDONED if another replaced it before it was judged.
        """
        if self.refused:
            return EvaluationStatus.COMPILE_ERROR.value
        if self.skipped:
            return "SKIPPED"
        if self.failures:
            return str(self.failures[0].status.value)
        return "PASSED" if self.workloads and len(self.checks) == len(self.workloads) else "ABANDONED"

    @property
    def passed(self) -> bool:
        """Whether it is correct on every planned Workload."""
        return self.status == "PASSED"

    @property
    def failures(self) -> list[Check]:
        """The verdicts on Workloads where it is wrong."""
        return [check for check in self.checks.values() if not check.passed]

    @property
    def is_cheat(self) -> bool:
        """Whether it failed by doing what an honest kernel has no reason to do."""
        return any(check.is_cheat for check in self.checks.values())

    @property
    def batch_invariance(self) -> str | None:
        """`yes`, or the first row on any Workload that has other bits in a batch of another size; None if unknown."""
        known = [check.batch_invariance for check in self.checks.values() if check.batch_invariance]
        return next((told for told in known if told != "yes"), known[0] if known else None)

    @property
    def titles(self) -> dict[str, str]:
        """The names of the Workloads, by uuid: their axes, with their scalars if another one has the same axes."""
        return title_workloads(map(NamedWorkload.of, self.workloads))

    @property
    def timings(self) -> list[Trace]:
        """Its own Traces with a time, in the order of the Workloads. What is interpreted has none."""
        own = self.own_traces
        timed = (own[uuid] for uuid in self.checks if uuid in own)
        return [trace for trace in timed if trace.performance and not trace.performance.interpreted]

    @property
    def records(self) -> list[Trace | Check]:
        """On each Workload its Trace, or its verdict without one, and then the Traces of the others."""
        own = self.own_traces
        found: list[Trace | Check] = []
        for uuid, check in self.checks.items():
            found += [own.get(uuid, check), *self.find_rivals(uuid)]
        return found

    def find_rivals(self, workload: str) -> list[Trace]:
        """The Traces of the Solutions that were timed in turn with it on the Workload of this uuid."""
        return [trace for trace in self.traces if trace.workload.uuid == workload and not self._is_own(trace)]

    @property
    def own_traces(self) -> dict[str, Trace]:
        """Its own Traces, by the uuid of the Workload."""
        return {trace.workload.uuid: trace for trace in self.traces if self._is_own(trace)}

    def _is_own(self, trace: Trace) -> bool:
        return self.solution is not None and trace.solution == self.solution.name

    def with_verdict(self, check: Check, traces: Sequence[Trace] = ()) -> "Version":
        """A copy with the newest verdict on a Workload, and the Traces that belong to it."""
        checks = {**self.checks, check.workload.uuid: check}
        return replace(self, checks=checks, traces=(*self.traces, *traces))

    def with_fault(self, error: InputError) -> "Version":
        """A copy that ends with what is wrong with its files, or with why the device cannot run it."""
        if isinstance(error, UnsuitedError):
            return replace(self, skipped=str(error).removeprefix(f"{self.kernel}: "), done=True)
        return replace(self, refused=str(error), hint=error.paste, done=True)
