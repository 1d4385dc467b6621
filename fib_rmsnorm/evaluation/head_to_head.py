"""Measure two Solutions against each other: in interleaved trials, and in several rounds with new processes."""

from collections.abc import Generator
from dataclasses import dataclass, replace
from pathlib import Path

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.evaluation import ROLES
from fib_rmsnorm.evaluation.plan import Group, Plan, Skip, choose_fitting
from fib_rmsnorm.evaluation.run_config import RunConfig
from fib_rmsnorm.evaluation.scheduler import Evaluated, Scheduler
from fib_rmsnorm.machine.capabilities import is_interpreted, reason_to_skip
from fib_rmsnorm.machine.devices import Device
from fib_rmsnorm.registry import Registry
from fib_rmsnorm.registry.sources.draft import draft_kernel, refuse_call
from fib_rmsnorm.registry.sources.kernel_file import KernelFile, named_definitions
from fib_rmsnorm.registry.sources.packing import read_current, require_packed
from fib_rmsnorm.sandbox.fork_server import ForkServer
from fib_rmsnorm.schema import Check, Definition, Solution, Trace

DEFAULT_BATCH_SIZES = (8, 512, 4096)


@dataclass(frozen=True)
class HeadToHead:
    """Two rivals, each with its Workloads of the same sizes, and the device on which they are measured."""

    old: Solution
    new: Solution
    plan: Plan
    """The Solutions by Workload: together if they serve one Definition, else one after the other."""
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
    else that of a registered Solution beside them, else the main one. Of two Definitions, the Workloads are those of
    sizes that both have. Raises InputError if a Solution is unknown or cannot run natively on the device, if no size is
    common, or if the device lacks memory for a requested batch size.
    """
    names = old, new
    current = read_current(registry, wants=lambda name, _: name in names)
    known = current.by_name
    require_packed(current.faulty, names, known)
    kernels = [
        KernelFile.locate(Path(name), call, definition=definition) for name, call in zip(names, calls, strict=True)
    ]
    for name, kernel in zip(names, kernels, strict=True):
        if name not in known and not kernel.file.exists():
            raise InputError(
                f"{name!r} is neither a Solution of {registry.root} nor a file; see: fib-rmsnorm list solutions"
            )
    registered = [(name, call) for name, call in zip(names, calls, strict=True) if name in known]
    if len(registered) == 2 or calls[0] != calls[1]:  # one function for both sides is for those that are files
        for name, call in registered:
            refuse_call(name, call)
    served = {known[name].definition for name, _ in registered}

    def find(name: str, kernel: KernelFile) -> tuple[Definition, Solution]:
        if name in known:
            return registry.definition(known[name].definition), known[name]
        if definition is None and len(served) == 1:
            named = named_definitions(registry, kernel, registry.definitions())
            kernel = kernel if named else replace(kernel, definition=min(served))
        return draft_kernel(registry, kernel)

    first, second = map(find, names, kernels)
    for name, kernel, (_, rival) in zip(names, kernels, (first, second), strict=True):
        if reason := reason_to_skip(rival, device, None if name in known else kernel.file):
            raise InputError(f"{rival.name}: {reason}")
        if is_interpreted(rival, device):
            raise InputError(f"{rival.name}: {device.hardware} would interpret the kernel, which is never timed")
    (of_old, old_one), (of_new, new_one) = first, second
    if old_one.name == new_one.name:
        new_one = new_one.model_copy(update={"name": f"{new_one.name}.new"})
    before, after = (
        {
            tuple(each.axes.values()): each
            for each in choose_fitting(registry, wanted, batch_sizes, DEFAULT_BATCH_SIZES, device)
        }
        for wanted in (of_old, of_new)
    )
    groups: list[Group] = []
    for size in (size for size in before if size in after):
        if of_old.name == of_new.name:
            groups.append(Group(of_old, before[size], (old_one, new_one)))
        else:
            groups += [Group(of_old, before[size], (old_one,)), Group(of_new, after[size], (new_one,))]
    if not groups:
        raise InputError(f"{of_old.name} and {of_new.name} have no Workloads of the same sizes: give --batch-sizes")
    return HeadToHead(old_one, new_one, Plan(groups), device)


def run_head_to_head(match: HeadToHead, config: RunConfig, rounds: int) -> Generator[Trace]:
    """Time the two Solutions in `rounds` rounds. Nothing is recorded.

    Each round has new processes, because latencies differ between processes. A round in which a Solution fails is the
    last: more rounds would not make it right. Raises InputError if a Workload cannot be evaluated because a
    Definition's reference fails.
    """
    for _ in range(rounds):
        all_passed = True
        with ForkServer(ROLES) as fork_server:
            for event in Scheduler(fork_server, [match.device], config).run(match.plan):
                if isinstance(event, Evaluated):
                    all_passed = all_passed and Check.of(event.trace).passed
                    yield event.trace
                elif isinstance(event, Skip):
                    raise InputError(event.reason)
        if not all_passed:
            return
