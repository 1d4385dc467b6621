"""Evaluate Solutions on one device, with its judge and its workers."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial

from fib_rmsnorm.building.native import compiler_flags
from fib_rmsnorm.evaluation.ceiling.ceiling_client import CeilingClient, NoCeilingError
from fib_rmsnorm.evaluation.correctness_gate import Admitted, CorrectnessGate
from fib_rmsnorm.evaluation.interleaved_trials import InterleavedTrials, TrialResults
from fib_rmsnorm.evaluation.judging.comparer import ReferenceFailedError
from fib_rmsnorm.evaluation.judging.judge_client import JudgeClient
from fib_rmsnorm.evaluation.performance import describe_performance
from fib_rmsnorm.evaluation.plan import Group, Skip
from fib_rmsnorm.evaluation.run_config import RunConfig
from fib_rmsnorm.evaluation.worker.worker_messages import GetReady
from fib_rmsnorm.evaluation.worker_client import EvaluationFailedError, reference_solution
from fib_rmsnorm.evaluation.worker_pool import MAX_WORKERS, WorkerPool
from fib_rmsnorm.languages import NEEDS_GPU
from fib_rmsnorm.machine.capabilities import is_interpreted
from fib_rmsnorm.machine.clocks import ClockWatch, read_clocks
from fib_rmsnorm.machine.devices import Device, gpu_arch
from fib_rmsnorm.machine.environment import identify_session, record_environment
from fib_rmsnorm.machine.gpu_models import DEFAULT_ARCH, capability_of
from fib_rmsnorm.registry import bytes_moved
from fib_rmsnorm.sandbox.fork_server import ForkServer
from fib_rmsnorm.schema import (
    Check,
    Clocks,
    Definition,
    Evaluation,
    EvaluationStatus,
    Performance,
    Solution,
    SupportedBindings,
    SupportedLanguages,
    Trace,
    Workload,
    digest,
)

# A solution that is being timed holds its inputs and two to four sets of outputs.
_TIMING_FACTOR = 3
_TIMING_SHARE = 0.5
_NO_TARGET = "No registered target detector found"
_NO_GPU = re.compile(
    r"Torch not compiled with CUDA enabled|Found no NVIDIA driver|No CUDA GPUs are available|Expected a cuda device"
    r"|\w+ not supported in interpreter mode|Triton's interpreter cannot call libdevice|\d+ active drivers"
    rf"|Cannot find backend|on a CPU it launches no kernel|libcuda.so[.\d]* cannot|{_NO_TARGET}"
    r"|CUDA_HOME environment variable is not set|(?:assert|if not) [^\n]*(?:\.is_cuda\b|\bdevice(?:\.type)? == \S*cuda)"
    r"|Error: [^\n]*\b(?i:must|requires?|only|expected|not)\b[^\n]*\b(?i:CUDA|GPU)\b[^\n]*"
    r"|Error: [^\n]*\b(?i:CUDA|GPU)\b[^\n]*\b(?i:required|available)\b[^\n]*"
)
"""The messages of exceptions, or the lines, that a kernel raises because it needs a GPU and there is none."""
_NO_PACKAGE = re.compile(
    r"No module named '(aiter|apex|cuda|cupy|cutlass|deepspeed|fla|flag_gems|flash_attn|flashinfer|helion|jax"
    r"|liger_kernel|mlx|numba|quack|sgl_kernel|tilelang|tinygrad|transformer_engine|unsloth|vllm|xformers)\b"
)
"""A package for kernels that is not installed; any other may be misspelt."""


class DeviceRunner:
    """Evaluates Solutions on one device, one Workload at a time."""

    def __init__(self, fork_server: ForkServer, device: Device, config: RunConfig) -> None:
        self.device = device
        self._config = config
        self.workers = WorkerPool(fork_server, device, config)
        self.judge_client = JudgeClient(self.workers)
        self.gate = CorrectnessGate(self.workers, self.judge_client, device)
        self._ceiling_client = CeilingClient(fork_server, device, config)
        self._clocks_at_start = read_clocks(device.name)

    def warm_up(self, definition: Definition, workload: Workload, *, timed: bool = True) -> None:
        """Have the right outputs of a Workload's first case computed, and what timing needs built, while Solutions are.

        Timing needs the reference and the copy. Raises ReferenceFailedError.
        """
        self.judge_client.expect(definition, workload)
        if timed:
            self._find_reference(definition)
            self._ceiling_client.build()

    def start_spare(self, definition: Definition, workload: Workload, language: str) -> None:
        """Start a worker for the next draft, which is probably in this language, if the device is a GPU."""
        if self.device.kind == "cpu":  # it would take the cores from what is timed
            return
        wanted = GetReady(
            device=self.device.name,
            language=language,
            definition=definition,
            dataset=self._config.dataset,
            workload=workload,
            recognition=self.judge_client.recogniser.recognise(definition, workload),
        )
        self.workers.start_spare(wanted)

    def check(
        self, definition: Definition, workload: Workload, solution: Solution
    ) -> tuple[Check, Admitted | EvaluationFailedError]:
        """Build, call and judge one Solution, and end its worker if it is not idle then.

        Raises ReferenceFailedError if the expected outputs are unknown.
        """
        verdict, log = self.gate.examine(definition, workload, solution, nullcontext()), ""
        if isinstance(verdict, Admitted):
            process = verdict.worker.process
            busy = self.workers.end_busy_workers(verdict.worker).get(process)
            log = process.take_log()
            if busy:
                verdict = EvaluationFailedError("RUNTIME_ERROR", busy, verdict.correctness).with_log(log)
        return Check.of(self.make_trace(definition, workload, solution, verdict, log)), verdict

    def reason_to_skip(self, verdict: Admitted | EvaluationFailedError) -> str:
        """Why a Solution that failed is not to blame: it needs a GPU or a package, and there is none. Else empty."""
        if isinstance(verdict, Admitted):
            return ""
        raises = verdict.status in (EvaluationStatus.COMPILE_ERROR, EvaluationStatus.RUNTIME_ERROR)
        if raises and (lacking := _NO_PACKAGE.search(str(verdict))):
            return f"needs {lacking[1]}, which is not installed here; install it first"
        found = _NO_GPU.search(str(verdict)) if raises and self.device.kind == "cpu" else None
        if not found:
            return ""
        why = "it names no TileLang target, so it is compiled for the GPU" if found[0] == _NO_TARGET else found[0]
        return f"{NEEDS_GPU} ({why})"

    def evaluate(self, group: Group) -> Iterator[Admitted | Trace | Skip]:
        """Judge Solutions on one Workload and time those that are right. A failure is a Trace too.

        The first verdicts do not wait for Solutions that take long to build: a failure, or that one is right.

        Raises ReferenceFailedError if the Definition's reference fails.
        """
        definition, workload = group.definition, group.workload
        size = self.max_at_once(definition, workload)
        for start in range(0, len(group.solutions), size):
            some = replace(group, solutions=group.solutions[start : start + size])
            admitted: dict[str, Admitted] = {}
            for solution, verdict in self._find_verdicts(some):
                if why := self.reason_to_skip(verdict):
                    yield Skip(definition.name, solution.name, why, workload)
                elif not isinstance(verdict, Admitted):
                    yield self.make_trace(definition, workload, solution, verdict)
                elif verdict.worker.is_interpreted:
                    yield self.call_untimed(workload, verdict)
                else:
                    admitted[solution.name] = verdict
                    yield verdict
            if admitted:
                in_order = [admitted[each.name] for each in some.solutions if each.name in admitted]
                yield from self.time(definition, workload, in_order)

    def _find_verdicts(self, group: Group) -> Iterator[tuple[Solution, Admitted | EvaluationFailedError]]:
        """The verdicts as they come, while what timing needs is built."""
        needed: list[Callable[[], object]] = [partial(self.judge_client.expect, group.definition, group.workload)]
        if all(is_interpreted(solution, self.device) for solution in group.solutions):
            yield from self.gate.admit(group, needed)
            return
        needed.append(partial(self._find_reference, group.definition))
        # The copy is needed for timing, and takes as long to build as a solution.
        yield from self.gate.admit(group, needed, self._ceiling_client.build)

    def call_untimed(self, workload: Workload, admitted: Admitted) -> Trace:
        """The Trace of a Solution that is right and interpreted, whose time would say nothing.

        Its repeated calls are judged as among the timed calls of others.
        """
        worker, solution, definition = admitted.worker, admitted.solution, admitted.worker.definition
        performance = Performance(interpreted=True)
        try:
            performance.library_calls = self.judge_client.judge_repeated_calls(workload, worker)
            if busy := self.workers.end_busy_workers(worker).get(worker.process):
                raise EvaluationFailedError("RUNTIME_ERROR", busy)
        except EvaluationFailedError as failure:
            return self.make_trace(definition, workload, solution, failure.with_log(worker.process.take_log()))
        log = worker.process.take_log()
        return self.make_trace(definition, workload, solution, admitted, log, performance)

    def judge_far_rows(self, workload: Workload, admitted: Admitted) -> str | None:
        """How a Solution that is right fails on rows beyond 2^31 elements: empty if it does not; None if not tried.

        Not tried is one in Python: operators of torch would need the memory of such tensors. Nor is any on AMD's GPUs,
        nor on a CPU what is not plain C++: TileLang takes over 20 s there, and what torch binds is slow to build again.
        """
        spec, device = admitted.solution.spec, self.device
        is_plain = spec.language is SupportedLanguages.CPP and spec.binding is not SupportedBindings.TORCH
        if spec.language is SupportedLanguages.PYTHON or device.is_amd or (device.kind == "cpu" and not is_plain):
            return None
        return self.judge_client.judge_far_rows(workload, admitted.worker)

    def max_at_once(self, definition: Definition, workload: Workload) -> int:
        """The number of solutions to time together, so that the device can hold all their inputs and outputs."""
        each = _TIMING_FACTOR * bytes_moved(definition, workload)
        fitting = int(_TIMING_SHARE * self.device.memory_bytes / each) - 1  # the reference is timed too
        return max(1, min(fitting, MAX_WORKERS - 1))

    def _find_reference(self, definition: Definition) -> Admitted:
        try:
            worker = self.workers.find_reference(definition)
        except EvaluationFailedError as failure:
            raise ReferenceFailedError(f"the reference of {definition.name} failed: {failure}") from None
        return Admitted(reference_solution(definition), worker)

    def time(self, definition: Definition, workload: Workload, admitted: Sequence[Admitted]) -> Iterator[Trace]:
        """Time Solutions that are right, in turn with the reference. Raises ReferenceFailedError if that fails."""
        of_reference = TrialResults(self._find_reference(definition))
        timings = [TrialResults(each) for each in admitted]
        self._fail_busy(timings)  # before the trials, which they would disturb
        idle = [each for each in timings if each.failure is None]
        on_cpu, l2 = self.device.kind == "cpu", self._config.settings.l2
        shared = Performance(
            bytes_moved=bytes_moved(definition, workload),
            cold_l2=None if on_cpu else l2 != "hot",
            device_session=identify_session(self.device),
        )
        try:
            shared.ceiling = self._ceiling_client.measure(definition, workload)
        except NoCeilingError as error:
            shared.noisy = [f"no copy to compare with: {error}"]
        trials = InterleavedTrials(definition, workload, self.judge_client, self._config.settings, on_cpu=on_cpu)
        with ClockWatch(self.device.name, self._clocks_at_start) as watch:
            trials.run(idle, of_reference)
        chain_clocks = self._run_in_graphs(trials, idle)
        self._fail_busy(timings)  # and after the trials, because they may have waited for them
        if of_reference.failure:
            raise ReferenceFailedError(f"the reference of {definition.name} failed: {of_reference.failure}")
        shared.clocks = watch.summary()
        for each in timings:
            solution, log = each.admitted.solution, each.admitted.worker.process.take_log()
            if each.failure:
                yield self.make_trace(definition, workload, solution, each.failure.with_log(log))
            else:
                performance = describe_performance(each, of_reference, shared, chain_clocks)
                yield self.make_trace(definition, workload, solution, each.admitted, log, performance)

    def _run_in_graphs(self, trials: InterleavedTrials, timed: list[TrialResults]) -> Clocks | None:
        """Time calls in CUDA graphs, if requested. A Solution whose calls fail there fails."""
        if self._config.settings.context != "graph":
            return None
        has_dependent_launch = capability_of(gpu_arch(self.device) or DEFAULT_ARCH) >= (9, 0)
        with ClockWatch(self.device.name, self._clocks_at_start) as watch:
            for dependent in (False, True) if has_dependent_launch else (False,):
                trials.run_in_graphs(timed, dependent=dependent)
        return watch.summary()

    def _fail_busy(self, timings: Sequence[TrialResults]) -> None:
        """Fail the Solutions whose workers are busy while no request is running. End all other busy workers too."""
        busy = self.workers.end_busy_workers()
        for each in timings:
            if each.failure is None and (found := busy.get(each.admitted.worker.process)):
                each.failure = EvaluationFailedError("RUNTIME_ERROR", found)

    def make_trace(
        self,
        definition: Definition,
        workload: Workload,
        solution: Solution,
        verdict: Admitted | EvaluationFailedError,
        log: str = "",
        performance: Performance | None = None,
    ) -> Trace:
        """The Trace of a Solution that is wrong, which tells why, or of one that is right, with its log."""
        failure = verdict if isinstance(verdict, EvaluationFailedError) else None
        correctness = verdict.correctness
        return Trace(
            definition=definition.name,
            workload=workload,
            solution=solution.name,
            evaluation=Evaluation(
                status=failure.status if failure else EvaluationStatus.PASSED,
                environment=record_environment(self.device, interpreted=is_interpreted(solution, self.device)),
                timestamp=datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
                log=str(failure) if failure else log,
                is_cheat=True if failure and failure.is_cheat else None,
                correctness=correctness,
                performance=None if failure else performance or Performance(),
                settings=self._config.settings,
                definition_sha256=digest(definition),
                solution_sha256=digest(solution),
                judged_by=self.judge_client.judged_by(definition, workload) if correctness else None,
                build_flags=compiler_flags(solution),
            ),
        )
