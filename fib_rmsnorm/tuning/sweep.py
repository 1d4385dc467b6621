"""Measure the launch parameters of a Solution in interleaved trials, store the Traces, inspect the compiled code."""

import os
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from math import ceil

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.evaluation import ROLES
from fib_rmsnorm.evaluation.plan import Group, Plan, Skip, reason_not_to_fit
from fib_rmsnorm.evaluation.run_config import RunConfig
from fib_rmsnorm.evaluation.scheduler import Building, Evaluated, Judged, Scheduler
from fib_rmsnorm.inspection import COMPILER
from fib_rmsnorm.inspection.explanation import explain
from fib_rmsnorm.inspection.facts import Explanation
from fib_rmsnorm.languages import LANGUAGES
from fib_rmsnorm.machine.capabilities import is_interpreted
from fib_rmsnorm.machine.devices import Device, find_properties
from fib_rmsnorm.registry import Registry, choose_workloads
from fib_rmsnorm.registry.selection import row_size
from fib_rmsnorm.registry.store import append_lines, read_jsonl
from fib_rmsnorm.registry.workload_generation import DEFAULT_BATCH_SIZES, LARGE_BATCH_SIZES
from fib_rmsnorm.sandbox.fork_server import ForkServer
from fib_rmsnorm.schema import Definition, Trace, Workload
from fib_rmsnorm.tuning.choosing import TOLERANCE, collect_timings
from fib_rmsnorm.tuning.tunable import Parameters, Tunable, TunableFolder

_MOST_AT_ONCE = 16
"""The most combinations to interleave; more are measured in groups, and the best of all groups once more."""
_FINALISTS = 8
INTERPRETED_ROWS = 4
"""The most rows on which an interpreted combination is judged: small blocks take a tenth of a second for each row."""


@dataclass(frozen=True)
class TrialsStarted:
    """Combinations are measured in turn, on all Workloads."""

    combinations: int
    total: int
    """All combinations of the sweep, if there are more."""
    workloads: tuple[Workload, ...]
    is_final: bool = False
    """Whether they are the best of all, measured once more."""


SweepEvent = TrialsStarted | Building | Judged | Trace | Skip
"""A Trace is one evaluation of the sweep, already recorded."""


def run_sweep(tunable: Tunable, device: Device, config: RunConfig, workloads: list[Workload]) -> Generator[SweepEvent]:
    """Measure every combination on every Workload: in groups if there are many, then the best of all groups again.

    Raises InputError if no Workload fits the device.
    """
    workloads = _choose_fitting(tunable, device, workloads)
    combinations = tunable.combinations()
    run_trials = partial(_run_trials, tunable, device, config, workloads)
    size = ceil(len(combinations) / ceil(len(combinations) / _MOST_AT_ONCE))  # of groups that are about equal
    groups = [combinations[start : start + size] for start in range(0, len(combinations), size)]
    traces: list[Trace] = []
    for group in groups:
        for event in run_trials(group):
            if isinstance(event, Trace):
                traces.append(event)
            yield event
    if len(groups) > 1 and (finalists := choose_finalists(traces)):
        yield from run_trials(finalists, is_final=True)


def choose_rows(registry: Registry, definition: Definition, batch_sizes: Sequence[int]) -> list[Workload]:
    """The Workloads of these numbers of rows; by default the registered ones, or without any those of usual numbers.

    Raises InputError if rows are not all that varies, and as `choose_workloads`.
    """
    if len(definition.var_axes) != 1:
        raise InputError(f"{definition.name}: tune needs one variable axis (it has {len(definition.var_axes)})")
    registered = registry.workloads(definition.name)
    usual = () if registered else (*DEFAULT_BATCH_SIZES, *LARGE_BATCH_SIZES)
    return choose_workloads(definition, registered, batch_sizes, usual)


def _choose_fitting(tunable: Tunable, device: Device, workloads: Sequence[Workload]) -> list[Workload]:
    """The Workloads that fit the device; for an interpreter those of few rows, else one of a single row."""
    definition = tunable.definition
    found = [each for each in workloads if not reason_not_to_fit(definition, each, device)]
    if is_interpreted(tunable.solution, device):
        few = [each for each in found if (row_size(each.axes) or 0) <= INTERPRETED_ROWS]
        found = few or choose_workloads(definition, workloads, (1,))
    if not found:
        raise InputError(f"{definition.name}: no Workload fits {device.hardware}; choose smaller --batch-sizes")
    return found


def _run_trials(
    tunable: Tunable,
    device: Device,
    config: RunConfig,
    workloads: Sequence[Workload],
    combinations: Sequence[Parameters],
    *,
    is_final: bool = False,
) -> Generator[SweepEvent]:
    yield TrialsStarted(len(combinations), len(tunable.combinations()), tuple(workloads), is_final)
    solutions = tuple(map(tunable.make_variant, combinations))
    parameters = {solution.name: dict(each) for solution, each in zip(solutions, combinations, strict=True)}
    multiprocessors = count_multiprocessors(device)

    def record(trace: Trace) -> Trace:
        """Turn the Trace of a variant into one of its Solution, with the variant's parameters."""
        if trace.evaluation is None:
            return trace
        details = {"parameters": parameters[trace.solution or ""], "multiprocessors": multiprocessors}
        evaluation = trace.evaluation.model_copy(update=details)
        converted = trace.model_copy(update={"solution": tunable.solution.name, "evaluation": evaluation})
        if tunable.tuning_file:
            append_lines(tunable.tuning_file, [converted.model_dump_json()], tunable.root)
        return converted

    plan = Plan([Group(tunable.definition, workload, solutions) for workload in workloads])
    with (
        ForkServer(ROLES) as fork_server,
        closing(Scheduler(fork_server, [device], config, record=record).run(plan)) as events,
    ):
        for event in events:
            yield event.trace if isinstance(event, Evaluated) else event


def choose_finalists(traces: Sequence[Trace]) -> list[Parameters]:
    """Choose the combinations that come near the best at any batch, the nearest first."""
    losses = sorted(
        (latency / min(latencies.values()) - 1, parameters)
        for latencies in collect_timings(traces).values()
        for parameters, latency in latencies.items()
    )
    return list(dict.fromkeys(parameters for loss, parameters in losses if loss <= 3 * TOLERANCE))[:_FINALISTS]


def read_kept(tunables: Sequence[TunableFolder], hardware: str, multiprocessors: int | None) -> dict[str, list[Trace]]:
    """Read each Definition's stored Traces that come from the current sources and devices which share a table.

    Devices share one with `hardware` if they have as many multiprocessors; without any (None), only its own kind.
    """

    def is_shared(trace: Trace) -> bool:
        measured = trace.evaluation.multiprocessors if trace.evaluation else None
        return measured == multiprocessors and (bool(multiprocessors) or trace.hardware == hardware)

    found: dict[str, list[Trace]] = {}
    for tunable in tunables:
        if tunable.tuning_file and tunable.tuning_file.exists():
            stored = read_jsonl(tunable.tuning_file, Trace, tunable.root)
            found[tunable.definition.name] = list(filter(is_shared, tunable.select_current(stored)))
    return found


def count_multiprocessors(device: Device) -> int | None:
    """The number of multiprocessors of a GPU; None for a CPU."""
    gpu = find_properties(device.name)
    return gpu.multiprocessors if gpu else None


def collect_figures(tunable: Tunable, at: Workload, device: Device, config: RunConfig) -> dict[Parameters, Explanation]:
    """The compiled code of each combination that launches exactly one kernel on the Workload; none for CPU code."""
    language = LANGUAGES[tunable.solution.spec.language.value]
    # A kernel that a CPU interprets can be compiled for a GPU, too.
    if not language.compiles_for_gpus or (device.kind == "cpu" and language.on["cpu"][0] != "interpret"):
        return {}
    combinations = tunable.combinations()

    def inspect(combination: Parameters) -> Explanation | None:
        variant = tunable.make_variant(combination)
        try:
            return explain(fork_server, tunable.definition, variant, [at], None, config, device)
        except InputError:
            return None  # it does not compile, which its evaluation reports

    # The threads last: Ctrl-C stops the processes, for which they wait.
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads, ForkServer((COMPILER,)) as fork_server:
        inspected = zip(combinations, threads.map(inspect, combinations), strict=True)
        return {each: found for each, found in inspected if found and len(found.launches) == 1}
