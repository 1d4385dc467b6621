"""Print a `try` while it runs: verdicts and times on stdout, the progress bar and notes on stderr."""

from __future__ import annotations

from fib_rmsnorm.cli.progress import ProgressBar
from fib_rmsnorm.errors import InputError
from fib_rmsnorm.evaluation.plan import Skip
from fib_rmsnorm.evaluation.scheduler import Building, Evaluated, Event
from fib_rmsnorm.evaluation.try_kernel import TryPlan
from fib_rmsnorm.languages import title_of
from fib_rmsnorm.registry.workload_titles import NamedWorkload, show_name, title_workloads
from fib_rmsnorm.reports.feedback import make_feedback
from fib_rmsnorm.reports.live.evaluations import LiveTable, marks
from fib_rmsnorm.reports.live.try_verdict import conclude, describe_failures, describe_prints
from fib_rmsnorm.reports.results import describe_noisy
from fib_rmsnorm.reports.text.console import Folded, echo, stderr, stdout
from fib_rmsnorm.reports.text.units import count
from fib_rmsnorm.schema import Check, Trace, list_cases
from fib_rmsnorm.sessions.version import Version, add_timing, describe_verdict


class TryPrinter:
    """Prints each event once."""

    def __init__(
        self, trial: TryPlan, bar: ProgressBar, *, is_timed: bool, as_json: bool, is_verbose: bool = False
    ) -> None:
        self._trial = trial
        self._bar = bar
        self._is_timed = is_timed
        self._as_json = as_json
        self._is_verbose = is_verbose
        self._titles = title_workloads(map(NamedWorkload.of, trial.workloads))
        """The titles of the Workloads, by uuid."""
        self._checks: dict[str, Check] = {}
        """The verdicts on the draft by the uuid of the Workload."""
        self._drafts: list[Trace] = []
        self._rivals: list[Trace] = []
        spec = trial.draft.spec
        style = "fills its outputs" if spec.destination_passing_style else "returns its outputs"
        entry = spec.entry_point.partition("::")[2]
        judged = f"{trial.draft.name} as {trial.definition.name} on {trial.device.hardware}"
        called = (trial.draft.description or f"{entry}()").removeprefix("Called as ")
        bar.print(stderr(), Folded(f"{judged}: {title_of(spec.language.value)}, {called} {style}", 2))
        if trial.left_out:
            bar.print(stderr(), trial.left_out)
        bar.expect(len(trial.workloads) * (1 + len(trial.rivals)))

    def show(self, event: Event | Check) -> None:
        """Print one event of a try, or one verdict of a check. Raises InputError if nothing was judged."""
        if isinstance(event, Building):
            self._bar.tell(f"building {count(event.solutions, 'solution')}")
        elif isinstance(event, Skip):
            raise InputError(f"{self._trial.draft.name} was not judged: {event.reason}")
        elif isinstance(event, Evaluated):
            trace = event.trace
            if trace.solution == self._trial.draft.name:
                self._checks[trace.workload.uuid] = Check.of(trace)  # a timed call may have been wrong
                self._drafts.append(trace)
            else:
                self._rivals.append(trace)
            self._bar.advance("evaluating")
        elif isinstance(event, Check):
            self._checks[event.workload.uuid] = event
            if event.passed and self._is_timed:
                judged = count(len(list_cases(event.correctness)), "case")
                where = self._titles[event.workload.uuid]
                self._bar.print(stderr(), f"correct at {where}: {judged} judged")

    def finish(self) -> int:
        """Remove the bar, print what the verdicts and times come to, and return the exit code."""
        self._bar.stop()
        planned = len(self._trial.workloads)
        checks, drafts, rivals = list(self._checks.values()), self._in_order(self._drafts), self._in_order(self._rivals)
        if self._as_json:
            version = self._make_version(drafts, rivals)
            records = [*(drafts or checks), *rivals] if self._is_verbose else []
            echo(make_feedback(version, is_whole=self._is_verbose, records=records).to_json())
        else:
            self._print(checks, drafts, rivals)
        passed = len(checks) == planned and all(check.passed for check in checks)
        return 0 if passed else 1

    def _print(self, checks: list[Check], drafts: list[Trace], rivals: list[Trace]) -> None:
        """Print a line for each evaluation, in the order of the Workloads, then why one failed, and the verdict."""
        names = (solution.name for solution in (self._trial.draft, *self._trial.rivals))
        table = LiveTable(names, self._titles.values(), stdout())
        evaluations = self._in_order([*drafts, *rivals])
        if any(trace.performance and not trace.performance.interpreted for trace in evaluations):
            stdout().print(table.header())
        for told in evaluations or checks:
            title = self._titles[told.workload.uuid]
            stdout().print(table.line(told, title, tells_why=told.solution != self._trial.draft.name))
        if printed := describe_prints(checks, self._titles):
            stdout().print(Folded(f"\n{printed}", 4))
        if failures := describe_failures(checks, self._titles):
            stdout().print(Folded(f"\n{failures}", 2))
        noisy = ((show_name(t.solution or "", self._titles[t.workload.uuid]), marks(t)) for t in evaluations)
        for doubt in describe_noisy(noisy):
            stdout().print(Folded(f"\n{doubt.text}", 4), style="yellow")
        stdout().print()
        stdout().print(Folded(conclude(self._titles, checks, drafts, rivals), 4))

    def _make_version(self, drafts: list[Trace], rivals: list[Trace]) -> Version:
        """The results of the draft so far, as a session has them."""
        trial = self._trial
        version = Version(
            number=1,
            kernel=trial.draft.name,
            files=[source.path for source in trial.draft.sources],
            definition=trial.definition.name,
            hardware=trial.device.hardware,
            started_at="",
            titles=list(self._titles.values()),
            verdicts=[describe_verdict(check, self._titles[uuid]) for uuid, check in self._checks.items()],
            note=trial.note,
        )
        names = [solution.name for solution in trial.rivals]
        for trace in drafts if version.passed else ():
            if trace.performance and trace.performance.interpreted:
                return version
            beside = [rival for rival in rivals if rival.workload.uuid == trace.workload.uuid]
            traces = {each.solution or "": each for each in (trace, *beside)}
            title = self._titles[trace.workload.uuid]
            version = add_timing(version, trace.workload, title, traces, trial.draft.name, None, names)
        return version

    def _in_order(self, traces: list[Trace]) -> list[Trace]:
        """Traces in the order of the Workloads; the largest was timed first."""
        numbers = {workload.uuid: number for number, workload in enumerate(self._trial.workloads)}
        return sorted(traces, key=lambda trace: numbers[trace.workload.uuid])
