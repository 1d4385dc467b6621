"""`fib-rmsnorm try` with one kernel: its verdicts while it runs on stderr, then what they come to on stdout."""

from __future__ import annotations

from collections.abc import Sequence
from queue import SimpleQueue

from fib_rmsnorm.cli.program import KERNEL_FAILED
from fib_rmsnorm.cli.progress import ProgressBar
from fib_rmsnorm.errors import InputError, KernelError
from fib_rmsnorm.languages import title_of
from fib_rmsnorm.registry.sources.kernel_file import KernelFile
from fib_rmsnorm.registry.workload_titles import show_name
from fib_rmsnorm.reports.feedback import make_feedback
from fib_rmsnorm.reports.live.evaluations import LiveTable, marks
from fib_rmsnorm.reports.live.try_verdict import conclude, describe_failures, describe_prints
from fib_rmsnorm.reports.results import describe_noisy
from fib_rmsnorm.reports.text.console import Folded, echo, stderr, stdout
from fib_rmsnorm.reports.text.units import count
from fib_rmsnorm.schema import Solution, Trace, list_cases
from fib_rmsnorm.sessions.job import Job, follow
from fib_rmsnorm.sessions.service import Service
from fib_rmsnorm.sessions.version import Version


def try_one(
    service: Service,
    kernel: KernelFile,
    bar: ProgressBar,
    batch_sizes: Sequence[int],
    *,
    is_timed: bool,
    as_json: bool,
    is_verbose: bool,
) -> int:
    """Have a kernel judged and timed, print what is found of it, and return the exit code.

    Raises InputError for a wrong argument, or if the kernel was not judged; KernelError if it cannot be read, unless
    its JSON is printed.
    """
    changed: SimpleQueue[Job] = SimpleQueue()
    job = service.submit("try", kernel, timed=is_timed, batch_sizes=batch_sizes, on_change=changed.put)
    progress = _Progress(job, bar)
    for version in follow(job, changed):
        progress.show(version)
    bar.stop()
    if version.skipped:
        raise InputError(f"{version.kernel} was not judged: {version.skipped}")
    if as_json:
        echo(make_feedback(version, is_whole=is_verbose).to_json())
    elif version.refused:  # with the path as its user gave it
        raise KernelError(version.refused.replace(version.kernel, str(kernel.file), 1), version.hint)
    else:
        _print(version)
    return 0 if version.passed else KERNEL_FAILED


class _Progress:
    """Prints how a kernel is called, and each verdict before it is timed, once, and moves the bar."""

    def __init__(self, job: Job, bar: ProgressBar) -> None:
        self._job = job
        self._bar = bar
        self._told: set[str] | None = None
        """The Workloads whose verdicts are printed, by uuid; None before the right call is known."""
        self._done = 0

    def show(self, version: Version) -> None:
        """Print and count what is new."""
        done, steps = self._job.progress
        if version.solution is None:
            return
        if self._told is None:
            self._told = set()
            self._begin(version, version.solution)
            self._bar.expect(steps)
        for uuid, check in version.checks.items() if self._job.timed else ():
            if check.passed and uuid not in self._told:
                judged = count(len(list_cases(check.correctness)), "case")
                self._bar.print(stderr(), f"correct at {version.titles[uuid]}: {judged} judged")
            self._told.add(uuid)
        for _ in range(self._done, done):
            self._bar.advance("timing" if self._job.timed and version.passed else "judging")
        self._done = done

    def _begin(self, version: Version, called: Solution) -> None:
        style = "fills its outputs" if called.spec.destination_passing_style else "returns its outputs"
        how = called.description or f"{called.spec.entry_point.partition('::')[2]}()"
        judged = f"{version.kernel} as {version.definition} on {version.hardware}"
        call = f"{title_of(called.spec.language.value)}, {how.removeprefix('Called as ')} {style}"
        self._bar.print(stderr(), Folded(f"{judged}: {call}", 2))
        if self._job.plan and self._job.plan.left_out:
            self._bar.print(stderr(), self._job.plan.left_out)
        self._bar.tell("judging")


def _print(version: Version) -> None:
    """Print a line for each evaluation, in the order of the Workloads, then why one failed, and the verdict."""
    titles, records = version.titles, version.records
    table = LiveTable((each.solution or "" for each in records), titles.values(), stdout())
    timed = (told.performance for told in records if isinstance(told, Trace))
    if any(each and not each.interpreted for each in timed):
        stdout().print(table.header())
    for told in records:
        stdout().print(table.line(told, titles[told.workload.uuid], tells_why=told.solution != version.kernel))
    if printed := describe_prints(version):
        stdout().print(Folded(f"\n{printed}", 4))
    if failures := describe_failures(version):
        stdout().print(Folded(f"\n{failures}", 2))
    traces = (told for told in records if isinstance(told, Trace))
    for doubt in describe_noisy((show_name(t.solution or "", titles[t.workload.uuid]), marks(t)) for t in traces):
        stdout().print(Folded(f"\n{doubt.text}", 4), style="yellow")
    stdout().print()
    stdout().print(Folded(conclude(version), 4))
