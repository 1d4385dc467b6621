"""A lane: one device with its judge and its workers; one Workload at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timezone
from functools import partial

from fib_rmsnorm.evaluation.ceiling.ceiling_client import CeilingClient, NoCeilingError
from fib_rmsnorm.evaluation.correctness_gate import CorrectnessGate
from fib_rmsnorm.evaluation.interleaved_trials import Candidate, InterleavedTrials
from fib_rmsnorm.evaluation.judging.judge_client import JudgeClient, ReferenceFailedError
from fib_rmsnorm.evaluation.performance import describe_performance, find_suspicions
from fib_rmsnorm.evaluation.run_config import RunConfig
from fib_rmsnorm.evaluation.worker_pool import MOST_WORKERS, EvaluationFailedError, TimeBudget, WorkerPool
from fib_rmsnorm.machine.capabilities import capability
from fib_rmsnorm.machine.clock_watch import ClockWatch
from fib_rmsnorm.machine.clocks import read_clocks
from fib_rmsnorm.machine.devices import Device
from fib_rmsnorm.machine.environment import identify_session, record_environment
from fib_rmsnorm.registry import bytes_moved
from fib_rmsnorm.sandbox.fork_server import ForkServer
from fib_rmsnorm.schema import (
    BuildSpec,
    Ceiling,
    Correctness,
    Definition,
    Evaluation,
    EvaluationStatus,
    Performance,
    Solution,
    SourceFile,
    SupportedLanguages,
    Trace,
    Workload,
    digest,
)

_REFERENCE_FILE = "reference.py"
# A solution that is being timed holds its inputs and two to four sets of outputs.
_STAGE_FACTOR = 3
_STAGE_SHARE = 0.5


class DeviceRunner:
    """Evaluates Solutions on one device."""

    def __init__(self, fork_server: ForkServer, device: Device, config: RunConfig) -> None:
        self.device = device
        self._config = config
        self._judge_client = JudgeClient(fork_server, device, config)
        self._workers = WorkerPool(fork_server, device, config)
        self._correctness_gate = CorrectnessGate(self._workers, self._judge_client, config.timeout_s)
        self._ceiling_client = CeilingClient(fork_server, device, config)
        self._clocks_at_start = read_clocks(device.name)

    def count_unbuilt(self, solutions: Iterable[Solution]) -> int:
        """How many of the Solutions an evaluation has to build first."""
        return sum(not self._workers.holds(solution) for solution in solutions)

    def evaluate(self, definition: Definition, workload: Workload, solutions: Sequence[Solution]) -> Iterator[Trace]:
        """Judge Solutions on one Workload and race those that are right. A failure is a Trace too.

        Raises ReferenceFailedError if the Definition's reference is what fails.
        """
        size = self._most_at_once(definition, workload)
        for start in range(0, len(solutions), size):
            candidates: list[Candidate] = []
            # The reference and the copy are for the race, and take as long to build as a solution does.
            meanwhile = (partial(self._find_reference, definition), self._ceiling_client.build)
            some = solutions[start : start + size]
            for solution, verdict in self._correctness_gate.admit(definition, workload, some, meanwhile):
                if isinstance(verdict, Candidate):
                    candidates.append(verdict)
                else:
                    yield self._make_trace(definition, workload, solution, failure=verdict)
            if candidates:
                order = {solution.name: place for place, solution in enumerate(some)}
                candidates.sort(key=lambda candidate: order[candidate.solution.name])
                yield from self._run_trials(definition, workload, candidates)

    def _most_at_once(self, definition: Definition, workload: Workload) -> int:
        """How many solutions race side by side: the device must hold their inputs and outputs, we their workers."""
        each = _STAGE_FACTOR * bytes_moved(definition, workload)
        fitting = int(_STAGE_SHARE * self.device.memory_bytes / each) - 1  # the reference races too
        return max(1, min(fitting, MOST_WORKERS - 1))

    def _find_reference(self, definition: Definition) -> Candidate:
        solution = reference_solution(definition)
        try:
            worker = self._workers.find(definition, solution)
        except EvaluationFailedError as failure:
            raise ReferenceFailedError(f"the reference of {definition.name} failed: {failure}") from None
        return Candidate(solution, worker, TimeBudget(self._config.timeout_s))

    def _run_trials(self, definition: Definition, workload: Workload, candidates: list[Candidate]) -> Iterator[Trace]:
        reference = self._find_reference(definition)
        everyone = [reference, *candidates]
        self._fail_busy(everyone)  # now, because they would disturb the others
        ceiling, no_ceiling = self._measure_ceiling(definition, workload)
        with ClockWatch(self.device.name, self._clocks_at_start) as watch:
            InterleavedTrials(definition, workload, self._judge_client, self._config.settings).run(
                candidates, unjudged=reference
            )
        clocks = watch.summary()
        self._fail_busy(everyone)  # and now, because they may have waited until they were timed
        if reference.failure:
            raise ReferenceFailedError(f"the reference of {definition.name} failed: {reference.failure}")
        for candidate in candidates:
            log = candidate.worker.process.take_log()
            if candidate.failure:
                yield self._make_trace(
                    definition, workload, candidate.solution, failure=candidate.failure.with_log(log)
                )
                continue
            performance = describe_performance(
                candidate, reference, bytes_moved(definition, workload), self._config.settings
            )
            language = candidate.solution.spec.language.value
            performance.interpreted = capability(language, self.device).ability == "interpret"
            performance.ceiling, performance.clocks = ceiling, clocks
            performance.device_session = identify_session(self.device)
            find_suspicions(performance, no_ceiling)
            yield self._make_trace(
                definition,
                workload,
                candidate.solution,
                correctness=candidate.correctness,
                performance=performance,
                log=log,
            )

    def _measure_ceiling(self, definition: Definition, workload: Workload) -> tuple[Ceiling | None, str | None]:
        """The ceiling, or why there is none."""
        try:
            return self._ceiling_client.measure(definition, workload), None
        except NoCeilingError as error:
            return None, str(error)

    def _fail_busy(self, candidates: Iterable[Candidate]) -> None:
        """Fail the entrants whose workers go on working while nobody asks them to, and end those of others too."""
        found = self._workers.end_busy_workers()
        for candidate in candidates:
            if candidate.failure is None and candidate.worker.process in found:
                candidate.failure = EvaluationFailedError("RUNTIME_ERROR", found[candidate.worker.process])

    def _make_trace(
        self,
        definition: Definition,
        workload: Workload,
        solution: Solution,
        *,
        failure: EvaluationFailedError | None = None,
        correctness: Correctness | None = None,
        performance: Performance | None = None,
        log: str = "",
    ) -> Trace:
        return Trace(
            definition=definition.name,
            workload=workload,
            solution=solution.name,
            evaluation=Evaluation(
                status=failure.status if failure else EvaluationStatus.PASSED,
                environment=record_environment(self.device),
                timestamp=datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
                log=str(failure) if failure else log,
                correctness=failure.correctness if failure else correctness,
                performance=performance,
                settings=self._config.settings,
                definition_sha256=digest(definition),
                solution_sha256=digest(solution),
            ),
        )


def reference_solution(definition: Definition) -> Solution:
    """The Definition's reference as a Solution, so that it is built, timed and limited like any other."""
    return Solution(
        name=f"{definition.name}.reference",
        definition=definition.name,
        author="reference",
        spec=BuildSpec(
            language=SupportedLanguages.PYTHON,
            target_hardware=["cpu", "cuda"],
            entry_point=f"{_REFERENCE_FILE}::run",
            destination_passing_style=False,
        ),
        sources=[SourceFile(path=_REFERENCE_FILE, content=definition.reference)],
    )
