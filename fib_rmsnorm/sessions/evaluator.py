"""Judge and time kernels on one device, one after the other, with everything kept warm that they share."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace

from fib_rmsnorm.errors import KernelError
from fib_rmsnorm.evaluation.correctness_gate import Admitted
from fib_rmsnorm.evaluation.device_runner import DeviceRunner
from fib_rmsnorm.evaluation.judging.comparer import reference_solution
from fib_rmsnorm.evaluation.run_config import RunConfig
from fib_rmsnorm.evaluation.try_kernel import TryPlan, find_right_call
from fib_rmsnorm.evaluation.worker_pool import EvaluationFailedError
from fib_rmsnorm.machine.capabilities import is_interpreted
from fib_rmsnorm.machine.devices import Device
from fib_rmsnorm.registry import Registry
from fib_rmsnorm.registry.workload_titles import NamedWorkload, title_workloads
from fib_rmsnorm.sandbox.asking import DeviceUnusableError
from fib_rmsnorm.sandbox.fork_server import ForkServer
from fib_rmsnorm.schema import Check, Definition, EvaluationStatus, Settings, Solution, Trace, Workload, digest
from fib_rmsnorm.sessions.contenders import Contender, DraftBuilds
from fib_rmsnorm.sessions.version import Version, add_timing, describe_verdict

_MOST_JUDGING = 64  # more than ever judge at once
_MOST_DEFINITIONS = 3
"""The number of Definitions whose references stay warm."""


class DeviceTurns:
    """Lets one kernel at a time be timed on a device, and nothing be judged there meanwhile. Threads share it.

    On a CPU nothing is built meanwhile either. Timing waits for running judgements, and they for it.
    """

    def __init__(self) -> None:
        self._places = threading.Semaphore(_MOST_JUDGING)
        self._entry = threading.Lock()
        """Held for a moment by those that judge, and by the one that times until it is done."""

    @contextmanager
    def judging(self) -> Iterator[None]:
        """Hold the device for judging, beside others that judge."""
        with self._entry:
            self._places.acquire()
        try:
            yield
        finally:
            self._places.release()

    @contextmanager
    def timing(self) -> Iterator[None]:
        """Hold the device alone."""
        with self._entry:
            for _ in range(_MOST_JUDGING):
                self._places.acquire()
            try:
                yield
            finally:
                self._places.release(_MOST_JUDGING)


class Evaluator:
    """Judges and times kernels on a device. One thread at a time may use it; other threads may call `abandon`."""

    def __init__(
        self,
        registry: Registry,
        device: Device,
        forks: ForkServer,
        settings: Settings,
        timeout_s: float,
        turns: DeviceTurns | None = None,
    ) -> None:
        """`turns` are shared with the other Evaluators of the device."""
        self.device = device
        self.turns = turns or DeviceTurns()
        self._builds = DraftBuilds()
        config = RunConfig(settings, timeout_s, registry.root, drafts=self._builds.folder)
        self._runner = DeviceRunner(forks, device, config)
        self._abandoned = threading.Event()
        self._ending = threading.Lock()
        self._evaluated: Contender | None = None
        """The kernel whose evaluation `abandon` may end: the latest one while it is judged or timed."""
        self._kept: list[Solution] = []
        """The Solutions whose workers are kept beside the references."""
        self._warm: OrderedDict[str, Definition] = OrderedDict()
        """The Definitions whose references run."""

    def close(self) -> None:
        """End the processes of all kernels and remove their builds."""
        self.abandon()
        self._runner.workers.close()
        self._builds.close()

    def begin(self) -> None:
        """From now on, `abandon` ends the evaluation that comes next."""
        self._abandoned.clear()

    def abandon(self) -> None:
        """From another thread: end the evaluation of the current kernel, even if it hangs.

        Without one, nothing ends: the worker of the last one is needed if its files come back, or for the next one.
        """
        self._abandoned.set()
        with self._ending:
            if self._evaluated is not None:
                self._runner.workers.end(self._evaluated.solution)

    def keep_only(self, workers: Iterable[Solution], builds: Iterable[Solution]) -> None:
        """End the workers of other Solutions except references, and remove the builds of others."""
        self._kept = [*workers]
        self._end_others()
        self._builds.keep_only(self._runner.workers.keep_folders(builds))

    def _end_others(self) -> None:
        self._runner.workers.end_others([*self._kept, *map(reference_solution, self._warm.values())])

    def evaluate(
        self,
        current: Contender,
        plan: TryPlan,
        new: Version,
        *,
        timed: bool = True,
        rivals: Sequence[Contender] = (),
        before: Contender | None = None,
    ) -> Generator[Version]:
        """Judge a kernel and time it in turn with others. Yields its Version with the verdict, and after each timing.

        Of the calls that may be meant, the right one is found first. `new` holds its results so far. Raises
        FibRmsnormError if the reference fails.
        """
        started = time.monotonic()
        self._evaluated = current
        timed = timed and not is_interpreted(current.solution, self.device)
        try:
            plan = self._find_call(current, plan)
            version = new.model_copy(update=self._judge(current, plan, started, is_timed=timed))
            yield version.model_copy(update={"done": not (timed and version.passed)})
            if timed and version.passed:
                yield from self._time(current, version, plan, rivals, before)
            self._start_spare(plan.definition, plan.workloads[0], current.solution)
        except KernelError as error:
            yield new.model_copy(update={"refused": str(error), "hint": error.paste, "done": True})
        finally:
            with self._ending:
                self._evaluated = None

    def _find_call(self, current: Contender, plan: TryPlan) -> TryPlan:
        """The plan with the right call, or the nearest one; `current` is the kernel called so, and what `abandon` ends.

        Raises KernelError if several are right.
        """
        name = current.solution.name

        def take_up(draft: Solution) -> None:
            current.solution = draft.model_copy(update={"name": name})

        def check(draft: Solution) -> Check | None:
            take_up(draft)
            if self._abandoned.is_set():
                return None
            found, _ = self._check(plan.definition, plan.workloads[0], current.solution, is_timed=True)
            if not found.passed:
                self._end_others()
            return found

        if len(plan.drafts) > 1:
            self._warm_up(plan)
        found = find_right_call(self._runner, plan, check)
        take_up(found.draft)
        return found

    def _judge(self, current: Contender, plan: TryPlan, started: float, *, is_timed: bool) -> dict[str, object]:
        """Judge a kernel, and return its results by the fields of Version."""
        titles = title_workloads(map(NamedWorkload.of, plan.workloads))
        with ThreadPoolExecutor(1) as pool:
            warming = pool.submit(self._warm_up, plan)  # while the kernel is built
            verdicts = []
            current.admitted.clear()
            for workload in plan.workloads:
                if self._abandoned.is_set():
                    break
                check, verdict = self._check(plan.definition, workload, current.solution, is_timed=is_timed)
                if self._abandoned.is_set():  # its worker was killed; the kernel is not to blame
                    break
                if isinstance(verdict, Admitted):
                    current.admitted[workload.uuid] = verdict
                verdicts.append(describe_verdict(check, titles[workload.uuid]))
                if check.status is EvaluationStatus.TIMEOUT:
                    break
            warming.result()
        return {
            "sha256": digest(plan.draft),
            "files": [source.path for source in plan.draft.sources],
            "titles": list(titles.values()),
            "verdicts": verdicts,
            "note": plan.note,
            "abandoned": len(verdicts) < len(plan.workloads) and self._abandoned.is_set(),
            "build_s": next((admitted.worker.build_s for admitted in current.admitted.values()), None),
            "verdict_s": round(time.monotonic() - started, 3),
        }

    def _warm_up(self, plan: TryPlan) -> None:
        """Start the processes that judge and time a Definition's kernels, unless they run."""
        name = plan.definition.name
        if name not in self._warm:
            with self.turns.judging():
                self._runner.warm_up(plan.definition, plan.workloads[0])
        self._warm[name] = plan.definition
        self._warm.move_to_end(name)
        while len(self._warm) > _MOST_DEFINITIONS:
            self._warm.popitem(last=False)

    def _check(
        self, definition: Definition, workload: Workload, solution: Solution, *, is_timed: bool
    ) -> tuple[Check, Admitted | EvaluationFailedError]:
        """Build a kernel, and judge it when nothing is timed. On a GPU it is built during timing."""
        if self.device.kind != "cpu":
            with suppress(EvaluationFailedError, DeviceUnusableError):  # the verdict says so
                self._runner.workers.find(definition, solution, ahead=True)
            if not is_timed:  # else it would run beside the trials, which begin soon
                self._start_spare(definition, workload, solution)
        with self.turns.judging():
            return self._runner.gate.check(definition, workload, solution)

    def _start_spare(self, definition: Definition, workload: Workload, solution: Solution) -> None:
        """Start the worker of the next kernel, probably one like this."""
        self._runner.start_spare(definition, workload, solution.spec.language.value)

    def _time(
        self,
        current: Contender,
        version: Version,
        plan: TryPlan,
        rivals: Sequence[Contender],
        before: Contender | None,
    ) -> Iterator[Version]:
        version = version.model_copy(update={"timings": [], "abandoned": False})
        others = [*([before] if before else []), *rivals]
        name, names = before.solution.name if before else None, [rival.solution.name for rival in rivals]
        for workload, title in zip(plan.workloads, version.titles, strict=True):
            traces = {}
            with self.turns.timing():
                if not self._abandoned.is_set():
                    traces = self._time_in_turn(plan.definition, workload, current, others)
            if self._abandoned.is_set():  # its worker was killed; the kernel is not to blame
                yield version.model_copy(update={"abandoned": True, "done": True})
                return
            version = add_timing(version, workload, title, traces, current.solution.name, name, names)
            is_done = workload is plan.workloads[-1] or not version.passed
            version = version.model_copy(update={"done": is_done})
            yield version
            if is_done:
                return

    def _time_in_turn(
        self, definition: Definition, workload: Workload, current: Contender, others: Sequence[Contender]
    ) -> dict[str, Trace]:
        """Time a kernel and others in turn: their Traces by name."""
        room = self._runner.max_at_once(definition, workload) - 1
        admitted = [self._admit(definition, each, workload) for each in (*others[: max(0, room)], current)]
        found = self._runner.time(definition, workload, list(filter(None, admitted)))
        return {trace.solution or "": trace for trace in found}

    def _admit(self, definition: Definition, contender: Contender, workload: Workload) -> Admitted | None:
        """A contender with its worker; None if it is wrong. Judged here if it was not, or if its worker died."""
        known = contender.admitted.get(workload.uuid)
        if known is not None and known.worker.process.alive:
            return replace(known, worker=replace(known.worker))
        _, verdict = self._runner.gate.check(definition, workload, contender.solution)
        if not isinstance(verdict, Admitted):
            return None
        contender.admitted[workload.uuid] = verdict
        return verdict
