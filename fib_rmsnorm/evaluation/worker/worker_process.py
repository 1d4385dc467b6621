"""The worker: a process that builds one solution, calls it and times it, and knows no right answers."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from time import perf_counter, perf_counter_ns
from typing import Any

import torch

from fib_rmsnorm.building import BuildError, build_entry, is_compile_error, prepare_build
from fib_rmsnorm.building.tracebacks import describe_exception
from fib_rmsnorm.evaluation.tensors.bits import same_bits
from fib_rmsnorm.evaluation.tensors.inputs import make_case
from fib_rmsnorm.evaluation.tensors.output_buffers import OutputBuffers
from fib_rmsnorm.evaluation.tensors.returned_outputs import WrongOutputError
from fib_rmsnorm.evaluation.timing import choose_timer
from fib_rmsnorm.evaluation.timing.timer import MOST_ATTEMPTS, MeasurementError, Sample
from fib_rmsnorm.evaluation.worker.caller import SolutionCaller
from fib_rmsnorm.evaluation.worker.kept_outputs import KeptOutputs
from fib_rmsnorm.evaluation.worker.library_calls import LibraryCalls
from fib_rmsnorm.evaluation.worker.tamper_check import TamperCheck
from fib_rmsnorm.evaluation.worker.timed_calls import TimedCalls
from fib_rmsnorm.sandbox.channel import Channel, Handler, Message, RefusalError, serve
from fib_rmsnorm.sandbox.output_transfer import write_outputs
from fib_rmsnorm.schema import Definition, Solution, SupportedLanguages, Workload


class Worker:
    """Holds one built solution on one device."""

    def __init__(self, channel: Channel, outputs_file: int) -> None:
        self._outputs_file = outputs_file
        self._tamper_check = TamperCheck()
        self.check = self._tamper_check.make_check()
        self.handlers: dict[str, Handler] = {
            "build": self.build,
            "call": self.call,
            "prepare_timing": self.prepare_timing,
            "time": self.time,
            "reveal": self.reveal,
            "count_costs": self.count_costs,
            "end_timing": self.end_timing,
        }
        self._channel = channel
        self._timing: TimedCalls | None = None
        self._calls_since_reveal = 0
        """On the stage, since one of them was last revealed."""

    def build(self, message: Message) -> Message:
        """Build the solution for the device; the answer says how long it took."""
        self._definition = Definition.model_validate(message["definition"])
        solution = Solution.model_validate(message["solution"])
        self._dataset = Path(message["dataset"]) if message.get("dataset") else None
        self._device: str = message["device"]
        cache = Path(message["cache"])
        prepared = prepare_build(solution, cache)
        if self._device != "cpu":
            torch.cuda.set_device(self._device)
        self._timer = choose_timer(self._device)
        self._kept_outputs = KeptOutputs()
        try:
            prepared_s = prepared.result()
            self._tamper_check.arm(self)
            started = perf_counter()
            entry = build_entry(solution, self._device, cache)
        except BuildError as error:
            raise RefusalError("COMPILE_ERROR", str(error)) from None
        self._runner = SolutionCaller(entry, self._definition, solution, self._device)
        self._is_python = solution.spec.language is SupportedLanguages.PYTHON
        return {"build_s": prepared_s + perf_counter() - started}

    def call(self, message: Message) -> Message:
        """Call the solution once on the inputs of a case and hand its outputs over."""
        workload = Workload.model_validate(message["workload"])
        case = make_case(self._definition, workload, message["case"], self._device, self._dataset)
        inputs = case.inputs
        before = {name: value.clone() for name, value in inputs.items() if isinstance(value, torch.Tensor)}
        outputs = OutputBuffers(self._definition, case.workload, self._device)
        started = perf_counter()
        found, changed_outputs = self._run(inputs, outputs, settle=message["case"] == 0)
        elapsed_ms = (perf_counter() - started) * 1e3
        self._check_form(found, outputs.tensors)
        write_outputs(self._outputs_file, found)
        if message["case"] == 0:
            self._kept_outputs.forget()
        self._kept_outputs.remember(found)
        changed = [name for name, value in before.items() if not same_bits(inputs[name], value)]
        return {
            "call_ms": elapsed_ms,
            "changed_inputs": changed,
            "overrun": outputs.overrun(),
            "changed_outputs": changed_outputs,
        }

    def _run(
        self, inputs: dict[str, Any], outputs: OutputBuffers, *, settle: bool
    ) -> tuple[list[torch.Tensor], list[str]]:
        try:
            return self._runner.run_checked(inputs, outputs, settle=settle)
        except WrongOutputError as error:
            raise RefusalError("RUNTIME_ERROR", str(error)) from None
        except Exception as error:
            if is_compile_error(error):
                raise RefusalError("COMPILE_ERROR", f"{type(error).__name__}: {error}") from None
            raise RefusalError("RUNTIME_ERROR", describe_exception(error), fatal=True) from None

    def _check_form(self, found: list[torch.Tensor], outputs: list[torch.Tensor]) -> None:
        for name, actual, expected in zip(self._definition.outputs, found, outputs, strict=True):
            if actual.shape != expected.shape:
                raise RefusalError(
                    "INCORRECT_SHAPE", f"{name}: shape {list(actual.shape)}, expected {list(expected.shape)}"
                )
            if actual.dtype != expected.dtype:
                raise RefusalError("INCORRECT_DTYPE", f"{name}: dtype {actual.dtype}, expected {expected.dtype}")

    def prepare_timing(self, message: Message) -> Message:
        """Make ready to time a Workload."""
        workload = Workload.model_validate(message["workload"])
        self._timing = TimedCalls(self._definition, workload, self._runner, self._device, self._dataset)
        self._calls_since_reveal = 0
        library_calls = LibraryCalls()
        watched_by = nullcontext() if self._is_python else library_calls
        self._timing.warm_up(message["warmup_runs"], message["budget_s"], watched_by)
        is_known = message["warmup_runs"] and not self._is_python
        return {
            "timer": self._timer.name,
            "tick_ms": self._timer.tick_ms,
            "operators": library_calls.names if is_known else None,
        }

    def time(self, message: Message) -> Message:
        """Time one trial: a span, a busy time and a number of pieces for each call."""
        timed_calls = self._require_timed_calls()
        self.check()  # each request's end is followed by one, but a thread may have waited for that
        samples: list[Sample] = []
        repeated: list[str] = []
        while not samples:
            timed_calls.move()
            try:
                samples = self._timer.measure(
                    timed_calls.prepare,
                    message["calls"],
                    cold=message["cold"],
                    budget_s=message["budget_s"],
                    after=timed_calls.look,
                )
            except MeasurementError as error:
                self._calls_since_reveal += error.calls
                repeated.append(str(error))
                if len(repeated) == MOST_ATTEMPTS:
                    raise RefusalError("RUNTIME_ERROR", f"{error}, in {MOST_ATTEMPTS} trials in a row") from None
            except WrongOutputError as error:
                raise RefusalError("RUNTIME_ERROR", str(error)) from None
        self._calls_since_reveal += len(samples)
        return {
            "repeated": repeated,
            "span_ms": [sample.span_ms for sample in samples],
            "busy_ms": [sample.busy_ms for sample in samples],
            "pieces": [sample.pieces for sample in samples],
            "clock_ns": perf_counter_ns(),
        }

    def reveal(self, _: Message) -> Message:
        """Hand over the outputs of one of the timed calls since this was last asked, and the number of its inputs."""
        timed_calls = self._require_timed_calls()
        try:
            chosen = timed_calls.recall(self._calls_since_reveal)
        except WrongOutputError as error:
            raise RefusalError("RUNTIME_ERROR", str(error)) from None
        self._calls_since_reveal = 0
        self._check_form(chosen.outputs, timed_calls.buffers.tensors)
        write_outputs(self._outputs_file, chosen.outputs)
        self._kept_outputs.remember(chosen.outputs)
        return {
            "number": chosen.number,
            "earlier": timed_calls.earlier_numbers(chosen.number),
            "changed_inputs": timed_calls.changed_inputs(),
            "overrun": timed_calls.overrun(),
            "changed_outputs": timed_calls.changed_outputs(chosen),
        }

    def count_costs(self, _: Message) -> Message:
        """What else a call costs: the host's time to issue it, and extra device memory."""
        timed_calls = self._require_timed_calls()
        self._timer.rest()
        return {
            "host_overhead_us": timed_calls.host_overhead_us(),
            "peak_memory_bytes": timed_calls.peak_memory_bytes(),
        }

    def end_timing(self, _: Message) -> Message:
        """Release what timing needed."""
        self._timing = None
        if kept := self._kept_outputs.find_kept():
            raise RefusalError("RUNTIME_ERROR", f"the solution keeps the outputs of {kept} earlier calls", fatal=True)
        if kernels := self._tamper_check.replaced_kernels():
            raise RefusalError("RUNTIME_ERROR", f"the solution replaced {', '.join(kernels[:5])}", fatal=True)
        if self._device != "cpu":
            torch.cuda.empty_cache()
        return {}

    def _require_timed_calls(self) -> TimedCalls:
        if self._timing is None:
            raise RefusalError("RUNTIME_ERROR", "no stage is set")
        return self._timing


def main(channel: Channel, outputs_file: int) -> None:
    """Serve until the channel closes."""
    worker = Worker(channel, outputs_file)
    serve(channel, worker.handlers, worker.check)
