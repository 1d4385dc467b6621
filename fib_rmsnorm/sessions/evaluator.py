"""Judge and time kernels on one device, one after the other, with everything kept warm that they share."""

import threading
import time
from collections import OrderedDict, defaultdict
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from math import inf

from fib_rmsnorm.errors import InputError, KernelError
from fib_rmsnorm.evaluation.correctness_gate import Admitted
from fib_rmsnorm.evaluation.device_runner import DeviceRunner
from fib_rmsnorm.evaluation.judging.comparer import ReferenceFailedError
from fib_rmsnorm.evaluation.plan import Group
from fib_rmsnorm.evaluation.run_config import RunConfig
from fib_rmsnorm.evaluation.worker_client import EvaluationFailedError, reference_solution
from fib_rmsnorm.machine.devices import Device
from fib_rmsnorm.registry.sources.callees import KernelCall
from fib_rmsnorm.registry.sources.draft import ask_for_call
from fib_rmsnorm.sandbox.asking import DeviceUnusableError
from fib_rmsnorm.sandbox.fork_server import ForkServer
from fib_rmsnorm.schema import Check, Definition, EvaluationStatus, Solution, Trace, Workload, digest
from fib_rmsnorm.sessions.contenders import DraftBuilds
from fib_rmsnorm.sessions.device_turns import DeviceTurns
from fib_rmsnorm.sessions.try_plan import TryPlan, measure_distance
from fib_rmsnorm.sessions.version import Version

_MOST_DEFINITIONS = 3
"""The number of Definitions whose references stay warm."""
_CALL_LIMIT_S = 20.0
"""The time limit of each call that may be meant, of what no compiler builds first."""


class Evaluator:
    """Judges and times kernels on a device. One thread at a time may use it; other threads may call `abandon`."""

    def __init__(
        self, forks: ForkServer, device: Device, config: RunConfig, turns: DeviceTurns, *, keeps_builds: bool = False
    ) -> None:
        """`turns` are shared with the other Evaluators of the device. With `keeps_builds`, builds outlive it."""
        self.device = device
        self.turns = turns
        self._builds = None if keeps_builds else DraftBuilds()
        drafts = self._builds.folder if self._builds else None
        self._runner = DeviceRunner(forks, device, replace(config, drafts=drafts))
        self._abandoned = threading.Event()
        self._ending = threading.Lock()
        self._evaluated: Solution | None = None
        """The kernel whose evaluation `abandon` may end: the latest one while it is judged or timed."""
        self._kept: list[Solution] = []
        """The Solutions whose workers are kept beside the references."""
        self._admitted: defaultdict[str, dict[str, Admitted]] = defaultdict(dict)
        """The Solutions that were found correct here and whose workers are kept, by digest and the Workload's uuid."""
        self._warm: OrderedDict[str, Definition] = OrderedDict()
        """The Definitions whose references run."""

    def close(self) -> None:
        """End the processes of all kernels and remove their builds."""
        self.abandon()
        self._runner.workers.close()
        if self._builds:
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
                self._runner.workers.end(self._evaluated)

    def keep_only(self, workers: Iterable[Solution], builds: Iterable[Solution]) -> None:
        """End the workers of other Solutions except references, and remove the builds of others."""
        self._kept = [*workers]
        kept = set(map(digest, self._kept))
        self._admitted = defaultdict(dict, {key: found for key, found in self._admitted.items() if key in kept})
        self._end_others()
        if self._builds:
            self._builds.keep_only(self._runner.workers.keep_folders(builds))

    def _end_others(self) -> None:
        self._runner.workers.end_others([*self._kept, *map(reference_solution, self._warm.values())])

    def evaluate(
        self, new: Version, plan: TryPlan, *, timed: bool, others: Sequence[Solution] = ()
    ) -> Generator[Version]:
        """Judge a kernel, and time it in turn with others.

        Of the calls that may be meant, the right one is found first. Yields its Version once that is known, and again
        with each verdict and each timing. Ends at the first timeout, which would come again on every other Workload,
        and at the first timed call that is wrong. A wrong kernel is not timed; one that is interpreted is called again
        instead. Raises InputError if the reference fails.
        """
        started = time.monotonic()
        self._evaluated = plan.draft
        try:
            plan = self._find_call(plan, timed=timed)
            self._evaluated = plan.draft
            called = replace(new, solution=plan.draft, workloads=plan.workloads, note=plan.note)
            for version in self._judge(plan, called, started, timed=timed):
                yield version
            if not version.done:
                yield from self._time(plan, version, () if plan.is_interpreted else others)
            self._runner.start_spare(plan.definition, plan.workloads[0], plan.draft.spec.language.value)
        except KernelError as error:
            yield new.with_fault(error)
        except ReferenceFailedError as error:
            raise InputError(f"{new.kernel} was not judged: {error}") from None
        finally:
            with self._ending:
                self._evaluated = None

    def _find_call(self, plan: TryPlan, *, timed: bool) -> TryPlan:
        """The plan with the one call that is right on its first Workload.

        If none is, the nearest one is chosen: its verdict says what is wrong. One that overwrites inputs is the last to
        be: what returns nothing has often lost its `return`. Of equally likely calls those of all functions are made;
        a function that hangs is called no other way. Raises KernelError if several functions are right, and
        ReferenceFailedError.
        """
        if len(plan.drafts) == 1:
            return plan
        self._warm_up(plan, timed=timed)
        checks, hanging = dict[KernelCall, Check](), set[str]()
        for _, equal in groupby(plan.drafts, key=lambda call: call.rank):
            right: dict[str, KernelCall] = {}
            for call in equal:
                if call.callee in right or call.callee in hanging:
                    continue
                self._evaluated = tried = plan.drafts[call]
                if self._abandoned.is_set():
                    return replace(plan, drafts={call: tried})
                with self._runner.workers.limited(inf if plan.draft.spec.binding else _CALL_LIMIT_S):
                    found, _ = self._check(plan.definition, plan.workloads[0], tried, is_timed=True)
                checks[call] = found
                if found.passed:
                    right[call.callee] = call
                    continue
                self._end_others()
                if found.status is EvaluationStatus.TIMEOUT:
                    hanging.add(call.callee)
            if len(right) > 1:
                raise ask_for_call(f"{plan.draft.name}: {' and '.join(right)} are correct", right.values())
            if right:
                chosen = right.popitem()[1]
                break
        else:
            chosen = min(checks, key=lambda call: (bool(call.in_place), *measure_distance(checks[call])))
        return replace(plan, drafts={chosen: plan.drafts[chosen]})

    def _judge(self, plan: TryPlan, version: Version, started: float, *, timed: bool) -> Iterator[Version]:
        """Judge a kernel on one Workload after the other. Yields its Version before the first, and with each verdict.

        The last one is `done` unless the kernel is to be timed.
        """
        with ThreadPoolExecutor(1) as pool:
            warming = pool.submit(self._warm_up, plan, timed=timed)  # while the kernel is built
            admitted: dict[str, Admitted] = {}
            for workload in plan.workloads:
                yield version
                if self._abandoned.is_set():
                    break
                check, verdict = self._check(plan.definition, workload, plan.draft, is_timed=timed)
                if self._abandoned.is_set():  # its worker was killed; the kernel is not to blame
                    break
                if why := self._runner.reason_to_skip(verdict):
                    version = replace(version, skipped=why)
                    break
                failed: list[Trace] = []
                if isinstance(verdict, Admitted):
                    admitted[workload.uuid] = verdict
                elif timed:
                    failed.append(self._runner.make_trace(plan.definition, workload, plan.draft, verdict))
                version = version.with_verdict(check, failed)
                if check.status is EvaluationStatus.TIMEOUT:
                    break
            warming.result()
        self._admitted[digest(plan.draft)] = admitted
        far_rows = empty_batch = None
        if version.passed:
            workload = version.workloads[0]
            with self.turns.judging():
                if self.device.kind != "cpu":
                    far_rows = self._runner.judge_far_rows(workload, admitted[workload.uuid])
                empty_batch = self._runner.judge_client.judge_empty_batch(workload, admitted[workload.uuid].worker)
            if self._abandoned.is_set():  # its worker was killed; the kernel is not to blame
                far_rows = empty_batch = None
        yield replace(
            version,
            far_rows=far_rows,
            empty_batch=empty_batch,
            build_s=next((found.worker.build_s for found in admitted.values()), None),
            verdict_s=round(time.monotonic() - started, 3),
            done=not (timed and version.passed),
        )

    def _warm_up(self, plan: TryPlan, *, timed: bool) -> None:
        """Start the processes that judge a Definition's kernels, and if need be time them, unless they run."""
        name, timed = plan.definition.name, timed and not plan.is_interpreted
        if name not in self._warm:
            with self.turns.judging():
                self._runner.warm_up(plan.definition, plan.workloads[0], timed=timed)
        if not timed:
            return
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
                self._runner.workers.find(definition, solution, ahead=workload)
            if not is_timed:  # else it would run beside the trials, which begin soon
                self._runner.start_spare(definition, workload, solution.spec.language.value)
        with self.turns.judging():
            return self._runner.check(definition, workload, solution)

    def _time(self, plan: TryPlan, version: Version, others: Sequence[Solution]) -> Iterator[Version]:
        kernel = plan.draft
        # The judge still has the right outputs of the last Workload, which is usually the largest.
        for workload in reversed(plan.workloads):
            traces: list[Trace] = []
            with self.turns.timing():
                if not self._abandoned.is_set():
                    traces = self._time_in_turn(plan.definition, workload, kernel, others)
            if self._abandoned.is_set():  # its worker was killed; the kernel is not to blame
                yield replace(version, done=True)
                return
            version = version.with_verdict(Check.of(traces[0]), traces)
            if not version.passed or workload is plan.workloads[0]:
                break
            yield version
        if version.passed and self.device.kind == "cpu":
            yield version
            with self.turns.judging():  # at the end, because there it takes seconds
                admitted = self._admitted[digest(kernel)][plan.workloads[0].uuid]
                far_rows = self._runner.judge_far_rows(plan.workloads[0], admitted)
            version = version if self._abandoned.is_set() else replace(version, far_rows=far_rows)
        yield replace(version, done=True)

    def _time_in_turn(
        self, definition: Definition, workload: Workload, kernel: Solution, others: Sequence[Solution]
    ) -> list[Trace]:
        """Time a kernel in turn with others, and return its Trace and theirs.

        Those are judged that were not, or whose worker died.

        Of one that is wrong when it is judged again, and of one that is interpreted, the Trace has no time.
        """
        room = max(0, self._runner.max_at_once(definition, workload) - 1)
        contenders = [*others[:room], kernel]
        verdicts: dict[str, Admitted | EvaluationFailedError] = {}
        for each in contenders:
            known = self._admitted[digest(each)].get(workload.uuid)
            if known is not None and known.worker.process.alive:
                verdicts[each.name] = replace(known, worker=replace(known.worker))  # with the whole time limit
        left = tuple(each for each in contenders if each.name not in verdicts)
        for solution, verdict in self._runner.gate.admit(Group(definition, workload, left)) if left else ():
            verdicts[solution.name] = verdict
            if isinstance(verdict, Admitted):
                self._admitted[digest(solution)][workload.uuid] = verdict
        own = verdicts[kernel.name]
        if not isinstance(own, Admitted):
            return [self._runner.make_trace(definition, workload, kernel, own)]
        if own.worker.is_interpreted:
            return [self._runner.call_untimed(workload, own)]
        in_turn = (verdicts[each.name] for each in contenders)
        *found, last = self._runner.time(definition, workload, [each for each in in_turn if isinstance(each, Admitted)])
        return [last, *found]
