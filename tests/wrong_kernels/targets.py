"""The private names of the package that wrong kernels attack: a rename in the package changes this file alone.

Packed into every Solution that imports it. Nothing of the package is imported before it is attacked, because other
evaluators run these kernels too.
"""

import gc
import importlib
import json
import struct
import sys
from dataclasses import dataclass

PACKAGE = "fib_rmsnorm"


@dataclass(frozen=True)
class Target:
    """A name in a module's source: of a class, a function, an attribute, a local variable, or a text."""

    module: str
    path: str

    def __str__(self):
        return f"{PACKAGE}.{self.module}.{self.path}"

    @property
    def name(self):
        return self.path.rpartition(".")[2]

    @property
    def owner(self):
        """The module or the class that has it."""
        found = importlib.import_module(f"{PACKAGE}.{self.module}")
        for name in self.path.split(".")[:-1]:
            found = getattr(found, name)
        return found

    def get(self):
        return getattr(self.owner, self.name)

    def replace(self, value):
        setattr(self.owner, self.name, value)

    def objects(self):
        """All objects of this class that Python's garbage collector knows."""
        if f"{PACKAGE}.{self.module}" not in sys.modules:
            return []
        kind = self.get()
        return [thing for thing in gc.get_objects() if type(thing) is kind]

    def of(self, thing):
        return getattr(thing, self.name)

    def replace_in(self, thing, value):
        setattr(thing, self.name, value)


# The worker: its requests, and the answers to them.
SERVE = Target("sandbox.channel", "serve")
HANDLERS = Target("sandbox.channel", "serve.handlers")
CHANNEL = Target("sandbox.channel", "Channel")
SOCKET = Target("sandbox.channel", "Channel._socket")
WORKER = Target("evaluation.worker.worker_process", "Worker")
WORKER_CALL = Target("evaluation.worker.worker_process", "Worker.call")
WORKER_CHANNEL = Target("evaluation.worker.worker_process", "Worker._channel")
WORKER_CHECK = Target("evaluation.worker.worker_process", "Worker.check")
WORKER_HANDLERS = Target("evaluation.worker.worker_process", "Worker.handlers")
TIME = Target("evaluation.worker.worker_messages", "Time")
WORKER_TIME = Target("evaluation.worker.worker_process", "Worker.time")
WORKER_TIMED_CALLS = Target("evaluation.worker.worker_process", "Worker._timing")
TIMER = Target("evaluation.worker.worker_process", "Worker._timer")
COMPARED = Target("evaluation.worker.worker_process", "same_bits")
JUDGES_COMPARISON = Target("evaluation.judging.output_comparison", "compare")
SAMPLES = Target("evaluation.worker.worker_messages", "Timed.samples")
OK = Target("sandbox.channel", "RefusalError.ok")
STATUS = Target("sandbox.channel", "RefusalError.status")
MESSAGE = Target("sandbox.channel", "RefusalError.message")
FATAL = Target("sandbox.channel", "RefusalError.fatal")
CALL_MS = Target("evaluation.worker.worker_messages", "Called.call_ms")
MEMORY = Target("evaluation.worker.worker_messages", "Outputs.memory")
CHANGED_INPUTS = Target("evaluation.worker.worker_messages", "Effects.changed_inputs")
CHANGED_OUTPUTS = Target("evaluation.worker.worker_messages", "Effects.changed_outputs")
WRITTEN_BEYOND = Target("evaluation.worker.worker_messages", "Effects.overrun")
HANDLE = Target("sandbox.asking", "DeviceMemory.handle")
OFFSET = Target("sandbox.asking", "DeviceMemory.offset")
WRITE = Target("evaluation.tensors.fresh_inputs", "_Draw.put")
NBYTES = Target("sandbox.asking", "DeviceMemory.nbytes")
OUTPUTS_FILE = Target("sandbox.fork_server", "fib-rmsnorm-outputs")
CHECKED_CALL = Target("evaluation.worker.caller", "SolutionCaller.run_checked")

# What prepares timed calls and keeps what they left.
TIMED_CALLS = Target("evaluation.worker.timed_calls", "TimedCalls")
COUNT = Target("evaluation.worker.timed_calls", "TimedCalls._timed")
BUFFERS = Target("evaluation.worker.timed_calls", "TimedCalls.buffers")
PREPARE = Target("evaluation.worker.timed_calls", "TimedCalls.prepare")
SAMPLE_OUTPUTS = Target("evaluation.worker.timed_calls", "TimedCalls.sample_outputs")
INPUTS = Target("evaluation.worker.timed_calls", "TimedCalls._inputs")

# Its inputs and outputs.
FRESH_INPUTS = Target("evaluation.tensors.fresh_inputs", "FreshInputs")
VALUES = Target("evaluation.tensors.fresh_inputs", "FreshInputs._values")
SET = Target("evaluation.tensors.fresh_inputs", "FreshInputs.set")
OUTPUT_BUFFERS = Target("evaluation.tensors.output_buffers", "OutputBuffers")
TENSORS = Target("evaluation.tensors.output_buffers", "OutputBuffers.tensors")
INSIDES = Target("evaluation.tensors.output_buffers", "OutputBuffers._insides")
RED_ZONES = Target("evaluation.tensors.output_buffers", "OutputBuffers.list_zones")
BITS_TORCH = Target("evaluation.tensors.output_buffers", "torch")

# The timers.
CLOCK = Target("evaluation.timing.cpu_clock", "clock")
CPU_CLOCK = Target("evaluation.timing.cpu_clock", "CpuClock")
MEASURE = Target("evaluation.timing.cpu_clock", "CpuClock.measure")
TIME_EACH = Target("evaluation.timing.cpu_clock", "_time_each")
PREPARED = Target("evaluation.timing.cpu_clock", "CpuClock.measure.prepare")
CALL = Target("evaluation.timing.cpu_clock", "_time_each.call")
STARTED = Target("evaluation.timing.cpu_clock", "_time_each.started")
CUPTI = Target("evaluation.timing.cupti", "Cupti")
CUPTI_STREAM = Target("evaluation.timing.cupti", "Cupti._stream")
CUPTI_RECORDER = Target("evaluation.timing.cupti", "Cupti._recorder")
RECORDER = Target("evaluation.timing.cupti", "ActivityRecorder")
NEXT_RECORD = Target("evaluation.timing.cupti", "ActivityRecorder._next")
KERNEL_RECORD = Target("evaluation.timing.kernel_records", "KernelRecord")
CUDA_EVENTS = Target("evaluation.timing.cuda_events", "CudaEvents")
SAMPLE = Target("evaluation.timing.timer", "Sample")
SAMPLE_SPAN = Target("evaluation.timing.timer", "Sample.span_ms")

# What looks for all of this.
REPLACED = Target("evaluation.worker.tamper_check", "TamperCheck.replaced")


def frame_of(*functions):
    """The innermost call of one of the functions on the stack, or None."""
    names = {function.name for function in functions}
    frame = sys._getframe(1)
    while frame and frame.f_code.co_name not in names:
        frame = frame.f_back
    return frame


def is_timed():
    """Whether a timer is on the stack."""
    return frame_of(MEASURE) is not None


def current_timed_calls():
    """The object that prepares timed calls, if one of them is on the stack."""
    frame = frame_of(MEASURE)
    return frame and frame.f_locals[PREPARED.name].__self__


def divide(message):
    """Divide the times in an answer, if it has any."""
    if SAMPLES.name in message:
        message[SAMPLES.name] = [(span / 3, *others) for span, *others in message[SAMPLES.name]]
    return message


def divide_data(data):
    """The same, in the form in which an answer is sent."""
    data = json.dumps(divide(json.loads(data[4:]))).encode()
    return struct.pack("!I", len(data)) + data
