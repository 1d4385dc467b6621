"""Evaluate the draft of one kernel beside a baseline and the fastest registered Solution."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.evaluation.plan import MAX_INTERPRETED_BYTES, Group, Plan, fits, require_fit
from fib_rmsnorm.evaluation.run_config import RunConfig
from fib_rmsnorm.evaluation.scheduler import Event, Scheduler
from fib_rmsnorm.machine.capabilities import capability, reason_to_skip
from fib_rmsnorm.machine.devices import Device
from fib_rmsnorm.registry import Registry, bytes_moved, generate_workloads
from fib_rmsnorm.sandbox.fork_server import ForkServer
from fib_rmsnorm.schema import Definition, EvaluationStatus, Solution, SupportedLanguages, Workload

DEFAULT_BATCH_SIZES = (1, 32, 512)
BASELINE_AUTHOR = "baseline"


@dataclass(frozen=True)
class TryPlan:
    """A draft, and the Solutions and Workloads with which it is measured."""

    definition: Definition
    draft: Solution
    rivals: tuple[Solution, ...]
    workloads: tuple[Workload, ...]
    device: Device


def plan_try(
    registry: Registry, definition: Definition, draft: Solution, batch_sizes: tuple[int, ...], device: Device
) -> TryPlan:
    """Choose the workloads and the rivals.

    Raises InputError if the draft cannot run on the device, or if a requested batch size does not fit it.
    """
    reason = reason_to_skip(draft, device)
    if reason:
        raise InputError(f"{draft.name}: {reason}")
    if definition.var_axes == ["batch"]:
        workloads = generate_workloads(definition, batch_sizes or DEFAULT_BATCH_SIZES)
    else:
        workloads = registry.workloads(definition.name)
    if batch_sizes:
        require_fit(definition, workloads, device)
    workloads = [workload for workload in workloads if fits(definition, workload, device)]
    if capability(draft.spec.language.value, device).ability == "interpret":
        workloads = [w for w in workloads if bytes_moved(definition, w) <= MAX_INTERPRETED_BYTES]
    if not workloads:
        raise InputError(
            f"{definition.name} has no Workload that {draft.name} can run on {device.hardware}; "
            "see: fib-rmsnorm list workloads"
        )
    return TryPlan(definition, draft, _choose_rivals(registry, definition, device), tuple(workloads), device)


def _choose_rivals(registry: Registry, definition: Definition, device: Device) -> tuple[Solution, ...]:
    """The shortest Python baseline, and the Solution that is the fastest by the Traces of this device.

    Without such Traces, the second is the first registered Solution that the device runs natively.
    """
    runnable = [
        solution
        for solution in registry.solutions().values()
        if solution.definition == definition.name
        and reason_to_skip(solution, device) is None
        and capability(solution.spec.language.value, device).ability == "run"
    ]
    baselines = [s for s in runnable if s.author == BASELINE_AUTHOR and s.spec.language is SupportedLanguages.PYTHON]
    others = {s.name: s for s in runnable if s.author != BASELINE_AUTHOR}
    ranked = sorted(
        (trace.evaluation.performance.speedup_factor, trace.solution)
        for trace in registry.traces()
        if trace.solution in others
        and trace.evaluation is not None
        and trace.evaluation.status is EvaluationStatus.PASSED
        and trace.evaluation.performance is not None
        and not trace.evaluation.performance.suspect
        and not trace.evaluation.performance.reference_suspect
        and trace.evaluation.environment.hardware == device.hardware
    )
    best = [others[ranked[-1][1]]] if ranked else list(others.values())[:1]
    plainest = sorted(baselines, key=lambda solution: sum(len(source.content) for source in solution.sources))
    return tuple(plainest[:1] + best)


def run_try(fork_server: ForkServer, wanted: TryPlan, config: RunConfig) -> Generator[Event]:
    """Evaluate the draft on every Workload, and then its rivals. Nothing is recorded."""
    plan = Plan([Group(wanted.definition, workload, (wanted.draft,)) for workload in wanted.workloads])
    plan.groups += [Group(wanted.definition, workload, wanted.rivals) for workload in wanted.workloads if wanted.rivals]
    scheduler = Scheduler(fork_server, [wanted.device], config)
    yield from scheduler.run(plan)
