"""Measure two Solutions against each other: in interleaved trials, and in several rounds with new processes."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.evaluation import ROLES
from fib_rmsnorm.evaluation.plan import Group, Plan, Skip, choose_fitting
from fib_rmsnorm.evaluation.run_config import RunConfig
from fib_rmsnorm.evaluation.scheduler import Evaluated, Scheduler
from fib_rmsnorm.machine.capabilities import is_interpreted, reason_to_skip
from fib_rmsnorm.machine.devices import Device
from fib_rmsnorm.registry import Registry
from fib_rmsnorm.registry.sources.definition_choice import choose_definition, named_definitions
from fib_rmsnorm.registry.sources.draft import draft_solution, refuse_call
from fib_rmsnorm.registry.sources.packing import read_current, require_packed
from fib_rmsnorm.sandbox.fork_server import ForkServer
from fib_rmsnorm.schema import Check, Definition, Solution, Trace, Workload

DEFAULT_BATCH_SIZES = (8, 512, 4096)


@dataclass(frozen=True)
class HeadToHead:
    """Two Solutions, and the Workloads and the device on which they are measured."""

    definition: Definition
    old: Solution
    new: Solution
    workloads: tuple[Workload, ...]
    device: Device


def plan_head_to_head(
    registry: Registry,
    old: str,
    new: str,
    batch_sizes: tuple[int, ...],
    device: Device,
    calls: tuple[str | None, str | None] = (None, None),
    definition: str | None = None,
) -> HeadToHead:
    """Find the two Solutions, each of which is registered or a kernel's file or folder, and their Workloads.

    `calls` says what to call in files and folders. Files serve `definition`, else the one that they name,
    else that of a registered Solution beside them, else the main one.
    Raises InputError if a Solution is unknown or cannot run natively on the device, if the two serve different
    Definitions, or if the device lacks memory for a requested batch size.
    """
    current = read_current(registry)
    known = current.by_name
    require_packed(current.faulty, (old, new), known)
    for name in (old, new):
        if name not in known and not Path(name).exists():
            raise InputError(
                f"{name!r} is neither a Solution of {registry.root} nor a file; see: fib-rmsnorm list solutions"
            )
    wanted = _choose_definition(registry, known, (old, new), definition)
    registered = [(name, call) for name, call in zip((old, new), calls, strict=True) if name in known]
    if len(registered) == 2 or calls[0] != calls[1]:  # one function for both sides is for those that are files
        for name, call in registered:
            refuse_call(name, call)
    first, second = (
        known[name] if name in known else draft_solution(registry, Path(name), wanted, call)
        for name, call in zip((old, new), calls, strict=True)
    )
    for rival in (first, second):
        if reason := reason_to_skip(rival, device):
            raise InputError(f"{rival.name}: {reason}")
        if is_interpreted(rival, device):
            raise InputError(f"{rival.name}: {device.hardware} would interpret the kernel, which is never timed")
    if first.name == second.name:
        second = second.model_copy(update={"name": f"{second.name}.new"})
    workloads = choose_fitting(registry, wanted, batch_sizes, DEFAULT_BATCH_SIZES, device)
    return HeadToHead(wanted, first, second, tuple(workloads), device)


def _choose_definition(
    registry: Registry,
    known: Mapping[str, Solution],
    rivals: tuple[str, str],
    asked: str | None,
) -> Definition:
    given = {known[name].definition for name in rivals if name in known}
    if asked is not None:
        given.add(registry.definition(asked).name)
    served = set(given)
    for file in (Path(name) for name in rivals if name not in known and asked is None):
        named = named_definitions(registry, file)
        if not given or (named and not given.intersection(named)):
            served.add(choose_definition(registry, file).name)
    if len(served) > 1:
        raise InputError(f"{' and '.join(rivals)} serve different Definitions: {', '.join(sorted(served))}")
    return registry.definition(served.pop())


def run_head_to_head(match: HeadToHead, config: RunConfig, rounds: int) -> Generator[Trace]:
    """Time the two Solutions in `rounds` rounds. Nothing is recorded.

    Each round has new processes, because latencies differ between processes. A round in which a Solution fails is the
    last: more rounds would not make it right. Raises InputError if a Workload cannot be evaluated because the
    Definition's reference fails.
    """
    for _ in range(rounds):
        all_passed = True
        plan = Plan([Group(match.definition, workload, (match.old, match.new)) for workload in match.workloads])
        with ForkServer(ROLES) as fork_server:
            for event in Scheduler(fork_server, [match.device], config).run(plan):
                if isinstance(event, Evaluated):
                    all_passed = all_passed and Check.of(event.trace).passed
                    yield event.trace
                elif isinstance(event, Skip):
                    raise InputError(event.reason)
        if not all_passed:
            return
