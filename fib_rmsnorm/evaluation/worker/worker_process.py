"""The process of a worker: it builds, calls and times one solution, which is untrusted, and knows no right answers."""

from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from time import perf_counter, perf_counter_ns

import torch

from fib_rmsnorm.building import BuildError, build_entry, load_language, prepare_build
from fib_rmsnorm.building.native import compiler_flags
from fib_rmsnorm.evaluation.tensors.case_numbers import count_cases
from fib_rmsnorm.evaluation.tensors.fresh_inputs import FreshInputs
from fib_rmsnorm.evaluation.tensors.guarded_memory import place_inputs
from fib_rmsnorm.evaluation.tensors.inputs import DeviceWorkload, make_case
from fib_rmsnorm.evaluation.tensors.output_buffers import OutputBuffers, find_overrun, same_bits
from fib_rmsnorm.evaluation.tensors.strided_rows import spread_rows, view_rows
from fib_rmsnorm.evaluation.timing import Timer, choose_timer, timer_name
from fib_rmsnorm.evaluation.timing.timer import MeasurementError
from fib_rmsnorm.evaluation.worker import worker_messages as messages
from fib_rmsnorm.evaluation.worker.caller import Outbox, SolutionCaller
from fib_rmsnorm.evaluation.worker.chained_calls import ChainedCalls, ChainTrial, UncapturableError, time_chain
from fib_rmsnorm.evaluation.worker.far_rows import call_far
from fib_rmsnorm.evaluation.worker.kept_outputs import KeptOutputs
from fib_rmsnorm.evaluation.worker.tamper_check import TamperCheck
from fib_rmsnorm.evaluation.worker.timed_calls import TimedCalls
from fib_rmsnorm.sandbox.asking import DeviceMemory, DeviceOpened, Done, name_handlers, open_device
from fib_rmsnorm.sandbox.channel import Channel, RefusalError, serve
from fib_rmsnorm.schema import SupportedLanguages, Workload, check_spec

_get_num_threads, _set_num_threads = torch.get_num_threads, torch.set_num_threads


@contextmanager
def on_one_thread(device: str) -> Iterator[None]:
    """Let torch use one thread inside, if `device` is the CPU, for what the worker does for itself.

    Each of many short operations waits for all threads, which spin meanwhile. Where another process takes a core, the
    hard inputs of 512 rows take 392 ms on two threads, and 46 ms on one.
    """
    threads = _get_num_threads()
    if device != "cpu" or threads == 1:
        yield
        return
    _set_num_threads(1)
    try:
        yield
    finally:
        _set_num_threads(threads)


class Worker:
    """Holds one built solution on one device."""

    def __init__(self, channel: Channel, outputs_file: int) -> None:
        self._outbox = Outbox(outputs_file)
        self._tamper_check = TamperCheck()
        self.check = self._tamper_check.make_check()
        self.handlers = name_handlers(
            *(open_device, self.prepare, get_ready, self.build, self.call, self.call_far, self.call_as_timed),
            *(self.prepare_timing, self.attach_timer, self.time, self.reveal, self.write_outputs, self.count_costs),
            *(self.end_timing, self.time_chain, self.reveal_chain),
        )
        self._channel = channel  # held, so that the check covers it
        self._kept_outputs = KeptOutputs()
        self._prepared: Future[float] | None = None
        self._target: messages.Build
        """The Definition, Solution and device, which never change."""
        self._timer: Timer
        self._caller: SolutionCaller
        self._timing: TimedCalls
        self._chain_trials: list[ChainTrial] = []
        """The last one, if calls could be captured."""

    def prepare(self, request: messages.Prepare) -> DeviceOpened:
        """Create the context on the device while the solution's compilers run: both take long."""
        self._prepared = prepare_build(request.solution, request.cache)
        return open_device(request)

    def build(self, request: messages.Build) -> messages.Built:
        """Build the solution for the device, and say how long that took."""
        prepared = self._prepared or prepare_build(request.solution, request.cache)
        self._prepared = None
        try:
            check_spec(request.solution.spec, request.definition)
        except ValueError as error:
            raise RefusalError("COMPILE_ERROR", str(error)) from None
        self._target, self._timer = request, choose_timer(request.device)
        try:
            prepared_s = prepared.result()
            self._tamper_check.arm(self)
            started = perf_counter()
            entry = build_entry(request.solution, request.device, request.cache)
        except BuildError as error:
            raise RefusalError("COMPILE_ERROR", str(error)) from None
        self._caller = SolutionCaller(entry, request.definition, request.solution, request.device)
        return messages.Built(build_s=prepared_s + perf_counter() - started)

    def call(self, request: messages.Call) -> messages.Called:
        """Call the solution once on the inputs of a case, and transfer its outputs."""
        wanted = self._begin(request.workload)
        with on_one_thread(wanted.device):
            case = make_case(wanted, request.recognition, request.case, few_rows=request.few_rows)
            spread = {name: spread_rows(case.inputs[name], step) for name, step in request.strided.items()}
            wholes = {**case.inputs, **spread}
            # Triton's interpreter, which has few rows, writes arguments back to where they came from.
            placed, before = place_inputs(wholes, is_guarded=request.guarded, is_read_only=not request.few_rows)
            inputs = {**placed, **{name: view_rows(placed[name], step) for name, step in request.strided.items()}}
            outputs = OutputBuffers(replace(wanted, workload=case.workload))
        started = perf_counter()
        found, changed_outputs = self._caller.run_checked(inputs, outputs, settle=request.case == 0)
        elapsed_ms = (perf_counter() - started) * 1e3
        with on_one_thread(wanted.device):
            if request.case == 0:
                self._kept_outputs.forget()
            return messages.Called(
                memory=self._transfer_judged(found),
                call_ms=elapsed_ms,
                changed_inputs=[name for name, value in before.items() if not same_bits(placed[name], value)],
                overrun=find_overrun([outputs]),
                changed_outputs=changed_outputs,
            )

    def call_far(self, request: messages.CallFar) -> messages.Outputs:
        """Call the solution once on a case whose rows lie beyond 2^31 elements, and transfer their outputs.

        C++ is built again for that: what overflows may be anything there, and compilers make it right or wrong.
        """
        wanted = self._begin(request.workload)
        built, caller = self._target, self._caller
        if flags := compiler_flags(built.solution):
            spec = built.solution.spec.model_copy(update={"flags": [*flags, "-fwrapv"]})
            solution = built.solution.model_copy(update={"spec": spec})
            entry = build_entry(solution, built.device, built.cache)
            caller = SolutionCaller(entry, built.definition, solution, built.device)
        case = make_case(wanted, request.recognition, request.case)
        called, axis = replace(wanted, workload=case.workload), request.recognition.row_axis or ""
        outputs = call_far(caller, called, case.inputs, axis)
        memory = self._outbox.transfer(outputs)
        torch.cuda.empty_cache()
        return messages.Outputs(memory)

    def call_as_timed(self, request: messages.CallAsTimed) -> messages.Outputs:
        """Call the solution once on the inputs of each of some timed calls, and transfer its outputs."""
        timed = self._begin(request.workload)
        found: list[torch.Tensor] = []
        for number in request.numbers:
            with on_one_thread(timed.device):
                # Made anew each time: the last call may have changed its own.
                inputs = FreshInputs(timed).set(number)
                outputs = OutputBuffers(timed)
            of_call, _changed = self._caller.run_checked(inputs, outputs)
            found += of_call
        return messages.Outputs(self._outbox.transfer(found))

    def prepare_timing(self, request: messages.PrepareTiming) -> messages.TimingPrepared:
        """Prepare to time a Workload, and warm up."""
        self._timing = TimedCalls(self._begin(request.workload), self._caller, request.judged_calls)
        is_python = self._target.solution.spec.language is SupportedLanguages.PYTHON
        operators = self._timing.warm_up(request.warmup_runs, request.budget_s, lists_operators=not is_python)
        return messages.TimingPrepared(timer=self._timer.name, tick_ms=self._timer.tick_ms, operators=operators)

    def attach_timer(self, _: messages.AttachTimer) -> Done:
        """Attach the timer. If that fails, the first trial tries again."""
        with suppress(MeasurementError):
            self._timer.attach()
        return Done()

    def time(self, request: messages.Time) -> messages.Timed:
        """Time one trial."""
        self._outbox.clear()
        self.check()  # a check also follows each request, but a thread may have waited for that one to pass
        return self._timing.time(self._timer, request.trial)

    def reveal(self, _: messages.Reveal) -> messages.Revealed:
        """Transfer the outputs of the calls that were chosen from those timed since the last reveal."""
        with on_one_thread(self._target.device):
            return self._timing.reveal(self._transfer_judged)

    def write_outputs(self, _: messages.WriteOutputs) -> Done:
        """Write the outputs of the last call to the file."""
        self._outbox.write()
        return Done()

    def count_costs(self, _: messages.CountCosts) -> messages.Costs:
        """Measure the host's time to issue a call, and the memory that it takes beyond its outputs."""
        self._outbox.clear()
        self._timer.rest()
        return messages.Costs(self._timing.host_overhead_us(), self._timing.peak_memory_bytes())

    def end_timing(self, _: messages.EndTiming) -> Done:
        """Release the memory that timing took. Fails if the solution kept outputs or replaced kernels of torch's."""
        self._outbox.clear()
        del self._timing
        with on_one_thread(self._target.device):
            kept = self._kept_outputs.find_kept()
        if kept:
            why = f"the solution keeps the outputs of {kept} earlier calls"
            raise RefusalError("RUNTIME_ERROR", why, fatal=True, is_cheat=True)
        if kernels := self._tamper_check.replaced_kernels():
            why = f"the solution replaced {', '.join(kernels[:5])}"
            raise RefusalError("RUNTIME_ERROR", why, fatal=True, is_cheat=True)
        if self._target.device != "cpu":
            torch.cuda.empty_cache()
        return Done()

    def time_chain(self, request: messages.TimeChain) -> messages.ChainTimed:
        """Time one trial of calls in a CUDA graph. That they cannot be captured is an answer, not a failure."""
        make = partial(ChainedCalls, self._begin(request.workload), self._caller, dependent=request.dependent)
        self.check()
        self._timer.rest()  # a timer that is attached records each kernel of a graph, which slows it down
        self._chain_trials.clear()
        try:
            trial = time_chain(make, request.replays, request.budget_s)
        except UncapturableError as error:
            return messages.ChainTimed(None, str(error)[: messages.MAX_REASON], perf_counter_ns())
        self._chain_trials.append(trial)
        return messages.ChainTimed(trial.times, None, perf_counter_ns())

    def reveal_chain(self, _: messages.RevealChain) -> messages.Revealed:
        """Transfer the outputs of one of the calls of the last trial in a CUDA graph."""
        trial = self._chain_trials.pop()
        return replace(trial.revealed, memory=self._outbox.transfer(trial.outputs))

    def _transfer_judged(self, outputs: list[torch.Tensor]) -> list[DeviceMemory] | None:
        """Transfer outputs, and remember them, to find out whether the solution keeps them."""
        memory = self._outbox.transfer(outputs)
        self._kept_outputs.remember(outputs)
        return memory

    def _begin(self, workload: Workload) -> DeviceWorkload:
        """Release the outputs of the last request, which have been copied, and say what to call on."""
        self._outbox.clear()
        return DeviceWorkload(self._target.definition, workload, self._target.device, self._target.dataset)


def get_ready(request: messages.GetReady) -> Done:
    """Load a language and the code that makes inputs: each first use takes long on a GPU."""
    load_language(request.language, request.device)
    timer_name(request.device)  # imports it
    wanted = DeviceWorkload(request.definition, request.workload, request.device, request.dataset)
    for case in range(count_cases(request.definition, request.recognition, request.workload)):
        made = make_case(wanted, request.recognition, case)
        OutputBuffers(replace(wanted, workload=made.workload))
    torch.cuda.empty_cache()
    return Done()


def main(channel: Channel, outputs_fd: int) -> None:
    """Serve until the channel closes."""
    worker = Worker(channel, outputs_fd)
    serve(channel, worker.handlers, worker.check)
