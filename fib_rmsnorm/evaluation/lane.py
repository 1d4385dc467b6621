"""A lane: one device with its judge and its workers; one evaluation at a time."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timezone
from statistics import median, quantiles

from fib_rmsnorm.evaluation.answers import Timed
from fib_rmsnorm.evaluation.capabilities import capability
from fib_rmsnorm.evaluation.court import Court, ReferenceFailedError
from fib_rmsnorm.evaluation.devices import Device
from fib_rmsnorm.evaluation.environment import record_environment
from fib_rmsnorm.evaluation.process import Zygote
from fib_rmsnorm.evaluation.workers import Allowance, FailedError, Terms, Worker, WorkerPool
from fib_rmsnorm.registry import bytes_moved
from fib_rmsnorm.schema import (
    BuildSpec,
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


class Lane:
    """Evaluates Solutions on one device."""

    def __init__(self, zygote: Zygote, device: Device, terms: Terms) -> None:
        self.device = device
        self._terms = terms
        self._court = Court(zygote, device, terms)
        self._workers = WorkerPool(zygote, device, terms)
        self._reference_ms: dict[tuple[str, str], float] = {}

    def prepare(self, jobs: Iterable[tuple[Definition, Solution]]) -> None:
        """Build Solutions and references ahead of their evaluation."""
        wanted = list(jobs)
        references = {definition.name: definition for definition, _ in wanted}.values()
        self._workers.prepare([*((d, reference_solution(d)) for d in references), *wanted])

    def evaluate(self, definition: Definition, workload: Workload, solution: Solution) -> Trace:
        """Judge and time one Solution on one Workload. A failure is a Trace too.

        Raises ReferenceFailedError if the Definition's reference is what fails.
        """
        reference_ms = self._time_reference(definition, workload)
        correctness: Correctness | None = None
        performance: Performance | None = None
        log = ""
        try:
            worker = self._workers.find(definition, solution)
            allowance = Allowance(self._terms.timeout_s)
            try:
                correctness = self._court.judge(definition, workload, worker, allowance)
                timed = self._time(workload, worker, allowance)
            finally:
                log = worker.process.take_log()
            performance = self._describe_performance(definition, workload, timed, reference_ms)
            performance.interpreted = capability(solution.spec.language.value, self.device).ability == "interpret"
            performance.build_s = worker.build_s
            status = EvaluationStatus.PASSED
        except FailedError as failure:
            status, correctness = failure.status, failure.correctness
            log = "\n".join(part for part in (str(failure), log.strip()) if part)
        return Trace(
            definition=definition.name,
            workload=workload,
            solution=solution.name,
            evaluation=Evaluation(
                status=status,
                environment=record_environment(self.device),
                timestamp=datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
                log=log,
                correctness=correctness,
                performance=performance,
                settings=self._terms.settings,
                definition_sha256=digest(definition),
                solution_sha256=digest(solution),
            ),
        )

    def _time(self, workload: Workload, worker: Worker, allowance: Allowance) -> Timed:
        request = {
            "do": "time",
            "workload": workload.model_dump(mode="json"),
            "settings": self._terms.settings.model_dump(),
        }
        return worker.ask(request, Timed, allowance)

    def _time_reference(self, definition: Definition, workload: Workload) -> float:
        """Median latency in milliseconds of the Definition's reference, timed like any Solution."""
        key = (definition.name, workload.uuid)
        if key not in self._reference_ms:
            try:
                worker = self._workers.find(definition, reference_solution(definition))
                timed = self._time(workload, worker, Allowance(self._terms.timeout_s))
            except FailedError as failure:
                raise ReferenceFailedError(f"the reference of {definition.name} failed: {failure}") from None
            self._reference_ms[key] = median(timed.samples_ms)
        return self._reference_ms[key]

    def _describe_performance(
        self, definition: Definition, workload: Workload, timed: Timed, reference_ms: float
    ) -> Performance:
        samples = timed.samples_ms
        latency_ms = median(samples)
        p5, *_, p95 = quantiles(samples, n=20, method="inclusive") if len(samples) > 1 else samples * 2
        moved = bytes_moved(definition, workload)
        return Performance(
            latency_ms=latency_ms,
            reference_latency_ms=reference_ms,
            speedup_factor=reference_ms / latency_ms if latency_ms else 0.0,
            latency_p5_ms=p5,
            latency_p95_ms=p95,
            samples=len(samples),
            timer=timed.timer,
            cold_l2=timed.cold_l2,
            bytes_moved=moved,
            bandwidth_gb_per_s=moved / latency_ms / 1e6 if latency_ms else None,
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
