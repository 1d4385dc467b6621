"""A lane: one device with its judge and its workers; one Workload at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timezone
from functools import partial

from fib_rmsnorm.evaluation.admission import Admission
from fib_rmsnorm.evaluation.capabilities import capability
from fib_rmsnorm.evaluation.clocks import read_clocks
from fib_rmsnorm.evaluation.court import Court, ReferenceFailedError
from fib_rmsnorm.evaluation.devices import Device
from fib_rmsnorm.evaluation.environment import identify_session, record_environment
from fib_rmsnorm.evaluation.performance import describe_performance, find_suspicions
from fib_rmsnorm.evaluation.race import Entrant, Race
from fib_rmsnorm.evaluation.spawning import Zygote
from fib_rmsnorm.evaluation.surroundings import CeilingGauge, ClockWatch, NoCeilingError
from fib_rmsnorm.evaluation.workers import MOST_WORKERS, Allowance, FailedError, Terms, WorkerPool
from fib_rmsnorm.registry import bytes_moved
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


class Lane:
    """Evaluates Solutions on one device."""

    def __init__(self, zygote: Zygote, device: Device, terms: Terms) -> None:
        self.device = device
        self._terms = terms
        self._court = Court(zygote, device, terms)
        self._workers = WorkerPool(zygote, device, terms)
        self._admission = Admission(self._workers, self._court, terms.timeout_s)
        self._gauge = CeilingGauge(zygote, device, terms)
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
            entrants: list[Entrant] = []
            # The reference and the copy are for the race, and take as long to build as a solution does.
            meanwhile = (partial(self._find_reference, definition), self._gauge.build)
            some = solutions[start : start + size]
            for solution, verdict in self._admission.admit(definition, workload, some, meanwhile):
                if isinstance(verdict, Entrant):
                    entrants.append(verdict)
                else:
                    yield self._make_trace(definition, workload, solution, failure=verdict)
            if entrants:
                order = {solution.name: place for place, solution in enumerate(some)}
                entrants.sort(key=lambda entrant: order[entrant.solution.name])
                yield from self._race(definition, workload, entrants)

    def _most_at_once(self, definition: Definition, workload: Workload) -> int:
        """How many solutions race side by side: the device must hold their inputs and outputs, we their workers."""
        each = _STAGE_FACTOR * bytes_moved(definition, workload)
        fitting = int(_STAGE_SHARE * self.device.memory_bytes / each) - 1  # the reference races too
        return max(1, min(fitting, MOST_WORKERS - 1))

    def _find_reference(self, definition: Definition) -> Entrant:
        solution = reference_solution(definition)
        try:
            worker = self._workers.find(definition, solution)
        except FailedError as failure:
            raise ReferenceFailedError(f"the reference of {definition.name} failed: {failure}") from None
        return Entrant(solution, worker, Allowance(self._terms.timeout_s))

    def _race(self, definition: Definition, workload: Workload, entrants: list[Entrant]) -> Iterator[Trace]:
        reference = self._find_reference(definition)
        everyone = [reference, *entrants]
        self._expose_strays(everyone)  # now, because they would disturb the others
        ceiling, no_ceiling = self._measure_ceiling(definition, workload)
        with ClockWatch(self.device.name, self._clocks_at_start) as watch:
            Race(definition, workload, self._court, self._terms.settings).run(entrants, unjudged=reference)
        clocks = watch.summary()
        self._expose_strays(everyone)  # and now, because they may have waited until they were timed
        if reference.failure:
            raise ReferenceFailedError(f"the reference of {definition.name} failed: {reference.failure}")
        for entrant in entrants:
            log = entrant.worker.process.take_log()
            if entrant.failure:
                yield self._make_trace(definition, workload, entrant.solution, failure=entrant.failure.with_log(log))
                continue
            performance = describe_performance(
                entrant, reference, bytes_moved(definition, workload), self._terms.settings
            )
            language = entrant.solution.spec.language.value
            performance.interpreted = capability(language, self.device).ability == "interpret"
            performance.ceiling, performance.clocks = ceiling, clocks
            performance.device_session = identify_session(self.device)
            find_suspicions(performance, no_ceiling)
            yield self._make_trace(
                definition,
                workload,
                entrant.solution,
                correctness=entrant.correctness,
                performance=performance,
                log=log,
            )

    def _measure_ceiling(self, definition: Definition, workload: Workload) -> tuple[Ceiling | None, str | None]:
        """The ceiling, or why there is none."""
        try:
            return self._gauge.measure(definition, workload), None
        except NoCeilingError as error:
            return None, str(error)

    def _expose_strays(self, entrants: Iterable[Entrant]) -> None:
        """Fail the entrants whose workers go on working while nobody asks them to, and end those of others too."""
        found = self._workers.expose_strays()
        for entrant in entrants:
            if entrant.failure is None and entrant.worker.process in found:
                entrant.failure = FailedError("RUNTIME_ERROR", found[entrant.worker.process])

    def _make_trace(
        self,
        definition: Definition,
        workload: Workload,
        solution: Solution,
        *,
        failure: FailedError | None = None,
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
                settings=self._terms.settings,
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
