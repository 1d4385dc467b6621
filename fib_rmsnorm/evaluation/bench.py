"""The main job: make missing records, plan the evaluations, run them, and record their Traces."""

from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.evaluation import ROLES
from fib_rmsnorm.evaluation.plan import BenchRecords, Plan, Selection, Unwritten, make_plan
from fib_rmsnorm.evaluation.run_config import RunConfig
from fib_rmsnorm.evaluation.scheduler import Evaluated, Event, Scheduler
from fib_rmsnorm.languages import INTERPRETER
from fib_rmsnorm.machine.devices import choose_devices
from fib_rmsnorm.operators import define_by_name
from fib_rmsnorm.registry import Registry, generate_workloads
from fib_rmsnorm.registry.files.locking import locked
from fib_rmsnorm.registry.output import OutputLock, check_output
from fib_rmsnorm.registry.seals import Sealer, TraceOrigin
from fib_rmsnorm.registry.selection import DEFAULT_DEFINITION, row_axis
from fib_rmsnorm.registry.sources.packing import read_current
from fib_rmsnorm.registry.store import append_lines, require_writable, write_atomic
from fib_rmsnorm.registry.workload_generation import DEFAULT_BATCH_SIZES, list_undetermined
from fib_rmsnorm.sandbox.fork_server import ForkServer
from fib_rmsnorm.schema import Settings, Trace, digest


def collect_records(registry: Registry, batch_sizes: Collection[int] = ()) -> BenchRecords:
    """Read a registry, and make what it lacks for a bench: a Definition, packed Solutions, Workloads.

    A Definition without Workloads gets those of `batch_sizes` beside the default ones. Sources that have
    changed since they were packed are packed again, so that a bench evaluates what is on disk.
    """
    records = BenchRecords(registry.root, registry.definitions(), {}, {})

    if not records.definitions and (default := define_by_name(DEFAULT_DEFINITION)):
        records.definitions[default.name] = default
        write = partial(registry.write_definition, default)
        records.unwritten.append(Unwritten(f"Definition {default.name}", default.name, write))
    current = read_current(registry, records.definitions)
    records.solutions.update(current.by_name)
    records.faulty.extend(current.faulty)
    for solution in current.unpacked:
        write = partial(registry.write_solution, solution, records.definitions[solution.definition].op_type)
        records.unwritten.append(Unwritten(f"Solution {solution.name}", solution.name, write))
    for name, definition in records.definitions.items():
        records.workloads[name] = registry.workloads(name)
        if not records.workloads[name] and not list_undetermined(definition):
            sizes = sorted({*DEFAULT_BATCH_SIZES, *batch_sizes}) if row_axis(definition) else None
            records.workloads[name] = generate_workloads(definition, sizes)
            write = partial(registry.write_workloads, definition, records.workloads[name])
            records.unwritten.append(Unwritten(f"Workloads of {name}", name, write))
    return records


class OutputFile(AbstractContextManager["OutputFile"]):
    """The traces of one run: a JSON array in a `.json` file, or lines in a `.jsonl` file.

    The first Trace replaces a `.jsonl` file. A `.json` file is written when this is closed; until then its Traces are
    lines of `NAME.json.unfinished.jsonl` beside it, which a killed run leaves. No other run may write the file until
    this is closed. Raises InputError at once, rather than after hours, if the file cannot be written.
    """

    def __init__(self, path: Path) -> None:
        if path.suffix not in (".json", ".jsonl"):
            raise InputError(f"--output {path}: the name must end in .json or .jsonl")
        check_output(path)
        self._lock = OutputLock(path)
        self.path = path
        self._lines = path.with_name(f"{path.name}.unfinished.jsonl") if path.suffix == ".json" else path
        self._is_empty = True

    def __exit__(self, *_: object) -> None:
        try:
            if self._lines != self.path and not self._is_empty:
                records = self._lines.read_text(encoding="utf-8").rstrip("\n").replace("\n", ",\n")
                write_atomic(self.path, f"[\n{records}\n]\n")
                self._lines.unlink()
        finally:
            self._lock.release()

    def add(self, trace: Trace) -> None:
        """Add a Trace. It is on disk when this returns."""
        record = trace.model_dump_json()
        if self._is_empty:
            write_atomic(self._lines, record + "\n")
            self._is_empty = False
        else:
            append_lines(self._lines, [record])


def record(registry: Registry, records: BenchRecords, output: OutputFile | None, sealer: Sealer, trace: Trace) -> Trace:
    """Seal a Trace and record it. Returns the sealed one."""
    sealed = sealer.seal(trace)
    author = records.solutions[trace.solution or ""].author
    registry.append_trace(sealed, author, records.definitions[trace.definition].op_type)
    if output:
        output.add(sealed)
    return sealed


DEFAULT_TIMEOUT_S = 120.0


@dataclass(frozen=True)
class BenchOptions:
    """The options of a bench."""

    selection: Selection = field(default_factory=Selection)
    settings: Settings = field(default_factory=Settings)
    device: str = "auto"
    timeout_s: float = DEFAULT_TIMEOUT_S
    resume: bool = False
    output: Path | None = None


@dataclass(frozen=True)
class Made:
    """A record that was missing or out of date, and has been written."""

    what: str
    path: Path


@dataclass(frozen=True)
class Started:
    """The plan is made, and evaluations follow."""

    plan: Plan
    hardware: list[str]
    """The model of each device."""


@dataclass(frozen=True)
class Told:
    """Something that the user should know of a device: it was lost, or it is left out."""

    text: str


BenchEvent = Event | Made | Started | Told


class LocalDevices:
    """The devices of this machine on which a bench runs. A subclass has those of others."""

    def __init__(self, registry: Registry, options: BenchOptions, fork_server: ForkServer) -> None:
        self._config = RunConfig(options.settings, options.timeout_s, registry.root)
        self._selection = options.selection
        self._fork_server = fork_server
        self._devices = choose_devices(options.device)
        check_options(options, self._devices[0].kind)
        if options.settings.context == "graph" and self._devices[0].is_amd:
            raise InputError("--context graph needs an NVIDIA GPU: its own kernels are PTX; leave the option out")

    def make_plans(self, records: BenchRecords) -> list[tuple[Plan, list[str]]]:
        """Plans that do not depend on each other, each with the model of every device that shares it."""
        self._plan = make_plan(records, self._selection, self._devices[0])
        return [(self._plan, [device.hardware for device in self._devices])]

    def run(self, record: Callable[[Trace], Trace]) -> Generator[Event | Told]:
        """Run the plans that were made. Each Trace is sealed and recorded before its event is yielded."""
        yield from Scheduler(self._fork_server, self._devices, self._config, record=record).run(self._plan)


@contextmanager
def open_local_devices(
    registry: Registry, options: BenchOptions, fork_server: ForkServer | None = None
) -> Iterator[LocalDevices]:
    """The devices of this machine. A `fork_server` that was started earlier saves the time to import torch."""
    with nullcontext(fork_server) if fork_server else ForkServer(ROLES) as source:
        yield LocalDevices(registry, options, source)


def bench(
    registry: Registry, options: BenchOptions, devices: AbstractContextManager[LocalDevices] | None = None
) -> Generator[BenchEvent]:
    """Evaluate every chosen Solution on every chosen Workload, on this machine's devices or others; yield events.

    What the registry lacks for the chosen ones is written first; other records stay as they are.
    Each Trace is on disk (in the registry's traces/ and in `options.output`) before its event is yielded.
    Closing the iterator early ends every process of the run. Raises InputError before anything is written or evaluated.
    """
    check_options(options, options.device)
    sealer = Sealer.of_this_machine(create=True)
    with (
        OutputFile(options.output) if options.output else nullcontext() as output,
        devices or open_local_devices(registry, options) as there,
    ):
        with locked(writing=[registry.root]):
            records = collect_records(registry, options.selection.batch_sizes)
            planned = there.make_plans(records)
            chosen = {name for plan, _ in planned for name in plan.chosen}
            for group in (each for plan, _ in planned for each in plan.groups):
                for author in {solution.author for solution in group.solutions}:
                    name, op_type = group.definition.name, group.definition.op_type
                    require_writable(registry.layout.trace_file(author, op_type, name))
            made = [Made(each.what, each.write()) for each in records.unwritten if each.owner in chosen]
        yield from made
        for plan, hardware in planned:
            done = _find_done(registry, sealer, plan, set(hardware), options.settings) if options.resume else {}
            yield Started(plan, hardware)
            yield from plan.skips
            for earlier in _take_out(plan, done):
                if output:
                    output.add(earlier)
                yield Evaluated(earlier, is_resumed=True)
        yield from there.run(partial(record, registry, records, output, sealer))


def check_options(options: BenchOptions, kind: str) -> None:
    """Raise InputError if options do not fit each other, or devices of this kind."""
    if options.resume and options.selection.against:
        raise InputError("--against compares outputs of this run, of which --resume leaves some out: give one of them")
    if options.settings.context == "graph" and kind == "cpu":
        raise InputError("--context graph needs a CUDA device: a CPU has no CUDA graphs; leave the option out")


def _find_done(
    registry: Registry, sealer: Sealer, plan: Plan, hardware: set[str], settings: Settings
) -> dict[tuple[str, str], Trace]:
    """The passed evaluations of the plan that this machine recorded, by the Workload's uuid and the Solution's name.

    Equal ones have the same contents, Workload, settings, and the model of one of the plan's devices.
    """
    wanted = {
        (group.definition.name, digest(group.definition), digest(solution), group.workload.uuid, name, settings)
        for group in plan.groups
        for solution in group.solutions
        for name in hardware
    }
    done = {}
    for trace in registry.traces():
        evaluation = trace.evaluation
        if evaluation is None or evaluation.performance is None:
            continue  # a failure is evaluated again
        contents = evaluation.definition_sha256, evaluation.solution_sha256
        name = evaluation.environment.hardware.removesuffix(INTERPRETER)
        key = trace.definition, *contents, trace.workload.uuid, name, evaluation.settings
        if key in wanted and sealer.find_origin(trace) is TraceOrigin.OWN:
            done[trace.workload.uuid, trace.solution or ""] = trace
    return done


def _take_out(plan: Plan, done: dict[tuple[str, str], Trace]) -> Iterator[Trace]:
    """Take out of a plan what is done; yield its Traces."""
    for number, group in enumerate(plan.groups):
        found = {each.name: done.get((group.workload.uuid, each.name)) for each in group.solutions}
        yield from filter(None, found.values())
        plan.groups[number] = replace(group, solutions=tuple(s for s in group.solutions if not found[s.name]))
    plan.groups[:] = [group for group in plan.groups if group.solutions]
