"""Plan what a bench evaluates: choose Definitions, Solutions and Workloads."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.machine.capabilities import Capability, readiness
from fib_rmsnorm.machine.devices import Device
from fib_rmsnorm.registry import Registry, bytes_moved, choose_workloads
from fib_rmsnorm.registry.selection import (
    NamedWorkload,
    choose,
    choose_batches,
    choose_peers,
    row_axis,
    title_by_definition,
)
from fib_rmsnorm.registry.sources.model_file import find_arguments
from fib_rmsnorm.registry.sources.packing import FaultySources, require_packed
from fib_rmsnorm.registry.validation.records import find_workload_faults
from fib_rmsnorm.registry.workload_generation import find_empty_axis
from fib_rmsnorm.schema import Definition, Solution, Workload

# A Workload needs about this many times the bytes of its tensors: for inputs, outputs, expected outputs, and float64
# blocks of these. On an H100, 526,000 rows of 4096 took the kernel's worker 2.4 times their bytes, that of the
# reference, which computes in float32, 4.7 times, and the judge more than 2.4 times.
_MEMORY_FACTOR = 12
# The interpreter handles about 6 MB of a kernel's traffic per second, so more than this would take minutes per call.
MAX_INTERPRETED_BYTES = 64 << 20
# Of a Workload with more rows, a bench on a CPU takes minutes, and says little of a kernel that is meant for a GPU.
_MOST_ROWS_ON_CPU = 512


@dataclass(frozen=True)
class Unwritten:
    """A record that the registry lacks."""

    what: str
    owner: str
    """The name of the Definition or Solution that it is, or whose Workloads it has."""
    write: Callable[[], Path]


@dataclass(frozen=True)
class BenchRecords:
    """Records by name, and Workloads by the name of their Definition."""

    root: Path
    definitions: dict[str, Definition]
    solutions: dict[str, Solution]
    workloads: dict[str, list[Workload]]
    unwritten: list[Unwritten] = field(default_factory=list)
    faulty: list[FaultySources] = field(default_factory=list)
    """Sources that cannot be packed. What was packed from them earlier is not among the Solutions."""


@dataclass(frozen=True)
class Selection:
    """Filters. An empty one selects everything. Names may be globs."""

    definitions: tuple[str, ...] = ()
    solutions: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    batch_sizes: tuple[int, ...] = ()
    against: str = ""
    """The name, or a glob, of the one Solution of each Definition with whose outputs the others' are compared."""


@dataclass(frozen=True)
class Skip:
    """Something that was chosen but cannot be evaluated here, and why."""

    definition: str
    solution: str | None
    reason: str
    workload: Workload | None = None
    is_failure: bool = False
    """Whether something is broken, such as a Definition's reference, rather than unsuited to this machine."""


@dataclass(frozen=True)
class Group:
    """One Workload and the Solutions to evaluate on it, on one device."""

    definition: Definition
    workload: Workload
    solutions: tuple[Solution, ...]
    peer: Solution | None = None
    """The first of the Solutions, if the outputs of the others are compared with its own."""


@dataclass
class Plan:
    """Groups in the order of reports and of one device's work, and what is skipped."""

    groups: list[Group] = field(default_factory=list)
    skips: list[Skip] = field(default_factory=list)
    lacking: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Definitions without a Workload of some requested batch sizes, and these sizes."""
    large: tuple[int, ...] = ()
    """Registered batch sizes that a CPU takes only if they are requested."""
    chosen: set[str] = field(default_factory=set)
    """The names of the Definitions and Solutions that were chosen, whether or not the device can run them."""

    @property
    def evaluations(self) -> int:
        """The number of evaluations in the plan."""
        return sum(len(group.solutions) for group in self.groups)

    @property
    def titles(self) -> dict[str, dict[str, str]]:
        """The titles of its Workloads, by Definition, then by uuid."""
        return title_by_definition((group.definition.name, NamedWorkload.of(group.workload)) for group in self.groups)


FindReadiness = Callable[[Solution], Capability]


def make_plan(
    records: BenchRecords, selection: Selection, device: Device, find_readiness: FindReadiness | None = None
) -> Plan:
    """Choose what to evaluate on devices like `device`. If they are another machine's, that finds what runs there.

    A Definition without a Workload of a requested batch size does not stop the others. Raises InputError if it, or a
    Solution of it, was requested by name, if a filter matches nothing, or if nothing can be evaluated: a mistyped name
    or a missing GPU must not look like success.
    """
    find_readiness = find_readiness or partial(readiness, device=device)
    plan = Plan()
    _leave_out_unpacked(plan, records, selection)
    definitions = choose("Definition", records.definitions.values(), lambda d: d.name, selection.definitions)
    chosen_names = {definition.name for definition in definitions}
    candidates = [s for s in records.solutions.values() if s.definition in chosen_names]
    named_ones = choose("Solution", candidates, lambda s: s.name, selection.solutions)
    solutions = choose("language", named_ones, lambda s: s.spec.language.value, selection.languages)
    found = {solution.name: find_readiness(solution) for solution in solutions}
    runnable = [solution for solution in solutions if found[solution.name].runs]
    plan.skips += [Skip(s.definition, s.name, found[s.name].note) for s in solutions if not found[s.name].runs]
    served = {solution.definition for solution in solutions}
    named = {*selection.definitions, *(s.definition for s in solutions if s.name in selection.solutions)}
    asked = [d for d in definitions if d.name in served or d.name in named]
    plan.chosen = {definition.name for definition in asked} | {solution.name for solution in solutions}
    peers = {}
    if selection.against:
        peers = _choose_peers(plan, candidates, sorted(served), selection.against, find_readiness)
    workloads, plan.lacking = choose_batches(asked, records.workloads, selection.batch_sizes, named)
    if device.kind == "cpu" and not selection.batch_sizes:
        runs = {solution.definition for solution in runnable}
        _leave_out_large(plan, [definition for definition in asked if definition.name in runs], workloads)
    for definition in definitions:
        mine = [solution for solution in runnable if solution.definition == definition.name]
        if mine and (axis := find_empty_axis(definition)):
            reason = f"axis {axis!r} of the Definition is 0; it must be positive"
            plan.skips.append(Skip(definition.name, None, reason, is_failure=True))
        elif mine:
            peer = peers.get(definition.name)
            mine = [peer, *(each for each in mine if each.name != peer.name)] if peer else mine
            interpreted = {each.name for each in mine if find_readiness(each).ability == "interpret"}
            for workload in workloads[definition.name]:
                _plan_workload(plan, records, Group(definition, workload, tuple(mine), peer), device, interpreted)
    if not plan.evaluations:
        lacking = f"{'Workload' if solutions else 'Solution'} of {', '.join(d.name for d in definitions)}"
        why = _describe(plan.skips) if plan.skips else f"{records.root} has no {lacking}; see: fib-rmsnorm list"
        raise InputError(f"nothing to evaluate on {device.name}: {describe_large(plan.large) or why}")
    return plan


def _leave_out_large(plan: Plan, definitions: list[Definition], workloads: dict[str, list[Workload]]) -> None:
    """Leave out the Workloads with more rows than a CPU takes unasked, and note their sizes in the plan."""
    large = set()
    for definition in definitions:
        mine, rows = workloads[definition.name], row_axis(definition) or ""
        workloads[definition.name] = [each for each in mine if each.axes.get(rows, 0) <= _MOST_ROWS_ON_CPU]
        large |= {size for each in mine if (size := each.axes.get(rows, 0)) > _MOST_ROWS_ON_CPU}
    plan.large = tuple(sorted(large))


def describe_large(sizes: tuple[int, ...]) -> str:
    """Say which batch sizes a CPU does not take unasked, and how to ask for them; nothing if there are none."""
    if not sizes:
        return ""
    listed = ",".join(map(str, sizes))
    return f"batch {listed.replace(',', ', ')} (slow on a CPU); to run them, add: --batch-sizes {listed}"


def _leave_out_unpacked(plan: Plan, records: BenchRecords, selection: Selection) -> None:
    """Skip as failed the sources that cannot be packed, if the selection may mean them.

    Raises InputError if it selects everything, or if a name of it means nothing else.
    """
    filters = (selection.definitions, selection.solutions, selection.languages)
    names = filter(None, (*selection.solutions, selection.against))
    require_packed(records.faulty, names, records.solutions, chooses_all=not any(filters))
    for faulty in records.faulty:
        if faulty.may_be_among(selection.solutions, selection.definitions, records.definitions):
            plan.skips.append(Skip(faulty.home, faulty.name, str(faulty.error), is_failure=True))


def _choose_peers(
    plan: Plan, candidates: list[Solution], served: list[str], glob: str, find_readiness: FindReadiness
) -> dict[str, Solution]:
    """The Solution of each Definition to compare with; note in the plan which Definitions have none that runs here."""
    peers = choose_peers(candidates, served, glob)
    for name in served:
        peer = peers.get(name)
        if peer is None:
            plan.skips.append(Skip(name, None, f"the comparison with {glob}: it has no such Solution"))
        elif not (found := find_readiness(peer)).runs:
            plan.skips.append(Skip(name, None, f"the comparison with {peer.name}: {found.note}"))
            del peers[name]
        else:
            plan.chosen.add(peer.name)
    if not peers:
        raise InputError(f"nothing to compare with: {_describe(plan.skips)}")
    return peers


def _describe(skips: list[Skip]) -> str:
    first, *others = skips
    at = f" at {NamedWorkload.of(first.workload).title()}" if first.workload else ""
    more = f" (and {len(others)} more; see: fib-rmsnorm list solutions)" if others else ""
    return f"{first.solution or first.definition}{at}: {first.reason}{more}"


def _plan_workload(
    plan: Plan, records: BenchRecords, group: Group, device: Device, interpreted: Collection[str]
) -> None:
    """Plan a group without what does not fit the device; a faulty Workload would be charged to its Solutions."""
    definition, workload = group.definition, group.workload
    if faults := find_workload_faults(records.root, definition, workload):
        fault = f"Workload {workload.uuid} is faulty: {faults[0]}"
        plan.skips.append(Skip(definition.name, None, fault, workload, is_failure=True))
        return
    if reason := reason_not_to_fit(definition, workload, device):
        plan.skips.append(Skip(definition.name, None, reason, workload))
        return
    slow = set(interpreted) if bytes_moved(definition, workload) > MAX_INTERPRETED_BYTES else set()
    reason = "interpreted: would take minutes per call at this size"
    plan.skips += [Skip(definition.name, each.name, reason, workload) for each in group.solutions if each.name in slow]
    fitting = tuple(each for each in group.solutions if each.name not in slow)
    plan.groups.append(Group(definition, workload, fitting, group.peer if group.peer in fitting else None))


def choose_fitting(
    registry: Registry, definition: Definition, wanted: tuple[int, ...], usual: tuple[int, ...], device: Device
) -> list[Workload]:
    """The Workloads of the wanted batch sizes, else those of the usual ones that fit the device's memory.

    The registry's where none can be generated, and of a KernelBench file, which has its own number of rows. Raises
    InputError if there is none of a wanted size, or if it does not fit.
    """
    fitting = []
    usual = () if find_arguments(definition) is not None else usual
    for workload in choose_workloads(definition, registry.workloads(definition.name), wanted, usual):
        reason = reason_not_to_fit(definition, workload, device)
        if reason and wanted:
            raise InputError(f"--batch-sizes {workload.axes.get(row_axis(definition) or '')}: {reason}")
        if not reason:
            fitting.append(workload)
    return fitting


def reason_not_to_fit(definition: Definition, workload: Workload, device: Device) -> str | None:
    """Why a device does not have enough memory to judge and time a Workload; None if it has."""
    needed = bytes_moved(definition, workload) * _MEMORY_FACTOR
    if needed <= device.memory_bytes:
        return None
    return f"needs about {needed / 1e9:.1f} GB of memory; the device has {device.memory_bytes / 1e9:.1f} GB"
