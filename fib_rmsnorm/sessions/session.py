"""Judge and time version after version of a kernel on one device. All that they share stays warm.

Each version gets a worker of its own. It is judged on every Workload as by `try`, and timed in turn with the version
before it, a baseline and the reference. When a version is replaced, its worker and its build end before the next one
starts.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

from fib_rmsnorm.errors import InputError, advise
from fib_rmsnorm.evaluation import ROLES
from fib_rmsnorm.evaluation.correctness_gate import Admitted
from fib_rmsnorm.evaluation.device_runner import DeviceRunner
from fib_rmsnorm.evaluation.judging.comparer import reference_solution
from fib_rmsnorm.evaluation.plan import choose_fitting
from fib_rmsnorm.evaluation.run_config import RunConfig
from fib_rmsnorm.evaluation.try_kernel import DEFAULT_BATCH_SIZES, TryPlan, choose_rivals, plan_try
from fib_rmsnorm.machine.capabilities import is_interpreted
from fib_rmsnorm.machine.devices import choose_devices
from fib_rmsnorm.registry import Registry
from fib_rmsnorm.registry.sources.definition_choice import require_meant
from fib_rmsnorm.registry.sources.draft import draft_solution
from fib_rmsnorm.registry.workload_titles import NamedWorkload, title_workloads
from fib_rmsnorm.sandbox.fork_server import ForkServer
from fib_rmsnorm.schema import EvaluationStatus, Settings, Solution, Trace, Workload, digest
from fib_rmsnorm.sessions.contenders import Contender, DraftBuilds
from fib_rmsnorm.sessions.session_protocol import KernelFile
from fib_rmsnorm.sessions.version import Version, add_timing, describe_verdict

_MAX_HISTORY = 1000


class Session(AbstractContextManager["Session"]):
    """Judges and times the versions of a kernel. A context manager; one thread at a time may use it.

        with Session(Registry.find(), "rmsnorm_d4096", device="cpu") as session:
            version = session.measure("kernel.py")
            print(version.status, [timing.latency_ms for timing in version.timings])

    Nothing is recorded in the registry.
    """

    def __init__(
        self,
        registry: Registry,
        definition: str | None = None,
        *,
        batch_sizes: Sequence[int] = (),
        device: str = "auto",
        settings: Settings | None = None,
        timeout_s: float = 60.0,
        fork_server: ForkServer | None = None,
    ) -> None:
        """`definition` defaults to the registry's main one, `batch_sizes` to those of `try`. A `fork_server` that was
        started earlier saves time; the session does not end it. Raises InputError for an unknown Definition or device,
        or for batch sizes that no kernel can be judged at.
        """
        self._registry = registry
        self.definition = registry.definition(definition)
        self.device = choose_devices(device)[0]
        self.history: deque[Version] = deque(maxlen=_MAX_HISTORY)
        """The versions so far, the one that was evaluated last at the end."""
        self._batch_sizes = tuple(batch_sizes)
        choose_fitting(registry, self.definition, self._batch_sizes, DEFAULT_BATCH_SIZES, self.device)
        self._abandoned = threading.Event()
        self._ending = threading.Lock()
        self._evaluated: Contender | None = None
        """The version whose evaluation `abandon` may end: the latest one while it is judged or timed."""
        self._count = 0
        self._latest: Contender | None = None
        self._before: Contender | None = None
        self._baseline: Contender | None = None
        self._is_warm = False
        self._stack = ExitStack()
        self._builds = DraftBuilds()
        self._stack.callback(self._builds.close)
        forks = fork_server or self._stack.enter_context(ForkServer(ROLES))
        config = RunConfig(settings or Settings(), timeout_s, registry.root, drafts=self._builds.folder)
        self._runner = DeviceRunner(forks, self.device, config)

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the processes of all versions and remove their builds."""
        self.abandon()
        self._runner.workers.end_others([])
        self._stack.close()

    def check(self, source: str | Path | KernelFile) -> Version:
        """Judge a kernel on every Workload, and time nothing."""
        return _last(self.follow(source, timed=False))

    def measure(self, source: str | Path | KernelFile) -> Version:
        """Judge a kernel, unless the last check was of the same files; time it on every Workload if it is right."""
        return _last(self.follow(source, judged=not self._is_known(source)))

    def follow(
        self,
        source: str | Path | KernelFile,
        *,
        timed: bool = True,
        judged: bool = True,
        draft: Solution | None = None,
    ) -> Generator[Version]:
        """Judge a kernel and time it. Yields its Version with the verdict, and again after each timing.

        `draft` is what was read of it, if it was. Files that cannot be read as a kernel give a Version too. `abandon`
        ends it from this call on, also before the first Version is asked for. Raises FibRmsnormError if the reference
        fails.
        """
        self._abandoned.clear()
        return self._follow(KernelFile.of(source), timed=timed, judged=judged, draft=draft)

    def _follow(self, kernel: KernelFile, *, timed: bool, judged: bool, draft: Solution | None) -> Generator[Version]:
        started = time.monotonic()
        new = Version(
            number=self._count + 1,
            kernel=kernel.file.name,
            definition=self.definition.name,
            hardware=self.device.hardware,
            started_at=datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
        )
        try:
            draft = draft or self.read(kernel)
            plan = plan_try(
                self._registry, self.definition, draft, self._batch_sizes, self.device, is_timed=False, file=kernel.file
            )
        except InputError as error:
            self._count += 1
            yield self._record(None, new.model_copy(update={"refused": str(error), "hint": advise(error)}), done=True)
            return
        current = self._evaluated = self._take_up(draft)
        timed = timed and not is_interpreted(current.solution, self.device)
        try:
            version = current.version
            if judged or version is None:
                found = self._judge(current, plan, started)
                version = new.model_copy(update={"number": current.number, "kernel": draft.name, **found})
                version = self._record(current, version, done=not (timed and version.passed))
                yield version
            if timed and version.passed:
                yield from self._time(current, version, plan, started)
            elif not judged:
                yield version
        finally:
            with self._ending:
                self._evaluated = None

    def read(self, source: str | Path | KernelFile) -> Solution:
        """Read a kernel's files. Raises InputError that says what is wrong with them, or for another Definition's."""
        kernel = KernelFile.of(source)
        registry, style = self._registry, kernel.destination_passing_style
        require_meant(registry, kernel.file, self.definition.name, kernel.definition)
        return draft_solution(registry, kernel.file, self.definition, kernel.entry, style, kernel.flags)

    def abandon(self) -> None:
        """From another thread: end the evaluation of the current version, whatever its kernel does.

        Without one, nothing ends: the worker of the last version is needed if its files come back, or for the next one.
        """
        self._abandoned.set()
        with self._ending:
            if self._evaluated is not None:
                self._runner.workers.end(self._evaluated.solution)

    def _is_known(self, source: str | Path | KernelFile) -> bool:
        """Whether the latest version has the same files, is right, and its worker is there."""
        latest = self._latest
        if latest is None or latest.version is None or not latest.passed:
            return False
        try:
            is_same = digest(self.read(source)) == latest.version.sha256
        except InputError:
            return False
        return is_same and all(admitted.worker.process.alive for admitted in latest.admitted.values())

    def _take_up(self, draft: Solution) -> Contender:
        """Make a draft the current version, and end the workers and builds of those that it replaces."""
        latest = self._latest
        if latest is None or latest.version is None or latest.version.sha256 != digest(draft):
            if latest is not None and latest.passed:
                self._before = latest
            self._count += 1
            latest = Contender(draft.model_copy(update={"name": f"{draft.name}#{self._count}"}), self._count)
        self._latest = latest
        if not self._is_warm:
            rivals = choose_rivals(self._registry, self.definition, self.device)
            self._baseline = Contender(rivals[0]) if rivals else None
        # The current one's worker is kept only if it is right: what failed to build may build now.
        kept = [self._before, self._baseline, latest if latest.passed else None]
        solutions = [contender.solution for contender in kept if contender]
        self._runner.workers.end_others([*solutions, reference_solution(self.definition)])
        self._builds.keep_only(version.solution for version in (self._before, latest) if version)
        return latest

    def _judge(self, current: Contender, plan: TryPlan, started: float) -> dict[str, object]:
        """Judge a version: what is known of it then, by the fields of Version."""
        titles = title_workloads(map(NamedWorkload.of, plan.workloads))
        with ThreadPoolExecutor(1) as pool:
            # What timing needs, while the first version is built.
            warming = None if self._is_warm else pool.submit(self._runner.warm_up, self.definition, plan.workloads[0])
            verdicts = []
            current.admitted.clear()
            for workload in plan.workloads:
                if self._abandoned.is_set():
                    break
                check, verdict = self._runner.gate.check(self.definition, workload, current.solution)
                if self._abandoned.is_set():  # its worker was killed; the kernel is not to blame
                    break
                if isinstance(verdict, Admitted):
                    current.admitted[workload.uuid] = verdict
                verdicts.append(describe_verdict(check, titles[workload.uuid]))
                if check.status is EvaluationStatus.TIMEOUT:
                    break
            if warming is not None:
                warming.result()
                self._is_warm = True
        interpreted = is_interpreted(current.solution, self.device)
        return {
            "sha256": digest(plan.draft),
            "files": [source.path for source in plan.draft.sources],
            "titles": list(titles.values()),
            "verdicts": verdicts,
            "note": plan.note or ("interpreted, so not timed" if interpreted else ""),
            "abandoned": len(verdicts) < len(plan.workloads) and self._abandoned.is_set(),
            "build_s": next((admitted.worker.build_s for admitted in current.admitted.values()), None),
            "verdict_s": round(time.monotonic() - started, 3),
        }

    def _time(self, current: Contender, version: Version, plan: TryPlan, started: float) -> Iterator[Version]:
        version = version.model_copy(update={"timings": [], "abandoned": False})
        for workload, title in zip(plan.workloads, version.titles, strict=True):
            traces = {} if self._abandoned.is_set() else self._time_in_turn(current, workload)
            if self._abandoned.is_set():  # its worker was killed; the kernel is not to blame
                yield self._record(current, version.model_copy(update={"abandoned": True}), done=True)
                return
            before = self._before.solution.name if self._before else None
            rivals = [self._baseline.solution.name] if self._baseline else []
            version = add_timing(version, workload, title, traces, current.solution.name, before, rivals)
            version = version.model_copy(update={"timed_s": round(time.monotonic() - started, 3)})
            is_done = workload is plan.workloads[-1] or not version.passed
            yield self._record(current, version, done=is_done)
            if is_done:
                return

    def _time_in_turn(self, current: Contender, workload: Workload) -> dict[str, Trace]:
        """Time a version and its rivals in turn: their Traces by name."""
        room = self._runner.max_at_once(self.definition, workload) - 1
        rivals = [contender for contender in (self._before, self._baseline) if contender][: max(0, room)]
        admitted = [self._admit(contender, workload) for contender in (*rivals, current)]
        found = self._runner.time(self.definition, workload, list(filter(None, admitted)))
        return {trace.solution or "": trace for trace in found}

    def _admit(self, contender: Contender, workload: Workload) -> Admitted | None:
        """A contender with its worker; None if it is wrong. Judged here if it was not, or if its worker died."""
        known = contender.admitted.get(workload.uuid)
        if known is not None and known.worker.process.alive:
            return replace(known, worker=replace(known.worker))
        _, verdict = self._runner.gate.check(self.definition, workload, contender.solution)
        if not isinstance(verdict, Admitted):
            return None
        contender.admitted[workload.uuid] = verdict
        return verdict

    def _record(self, current: Contender | None, version: Version, *, done: bool) -> Version:
        """Put a version at the end of the history, in place of what was known of it."""
        version = version.model_copy(update={"done": done})
        if current is not None:
            current.version = version
        # One that was refused may have come since: it replaces no version.
        known = next((each for each in reversed(self.history) if each.number == version.number), None)
        if known is not None:
            self.history.remove(known)
        self.history.append(version)
        return version


def _last(versions: Iterator[Version]) -> Version:
    """The last of at least one Version."""
    return deque(versions, maxlen=1)[0]
