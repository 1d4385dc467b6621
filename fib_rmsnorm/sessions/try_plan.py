"""Plan how a kernel is judged: its Workloads, its rivals, and how far a call is from the right one."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fib_rmsnorm.errors import InputError, UnsuitedError
from fib_rmsnorm.evaluation.plan import MAX_INTERPRETED_BYTES, choose_fitting
from fib_rmsnorm.machine.capabilities import is_interpreted, reason_to_skip
from fib_rmsnorm.machine.devices import Device
from fib_rmsnorm.registry import Registry, bytes_moved
from fib_rmsnorm.registry.selection import BASELINE_AUTHOR, NamedWorkload, find_baseline
from fib_rmsnorm.registry.sources.callees import KernelCall
from fib_rmsnorm.registry.sources.packing import read_current
from fib_rmsnorm.schema import Check, Definition, EvaluationStatus, Solution, Workload, list_cases

DEFAULT_BATCH_SIZES = (1, 32, 512)
_NEAREST = [EvaluationStatus.INCORRECT_NUMERICAL, EvaluationStatus.INCORRECT_DTYPE, EvaluationStatus.INCORRECT_SHAPE]
"""The failures of calls that run."""


@dataclass(frozen=True)
class TryPlan:
    """A kernel, and the Workloads on which it is judged."""

    definition: Definition
    drafts: Mapping[KernelCall, Solution]
    """The kernel with each call that may be meant, the likeliest first; with the right one alone, once it is known."""
    workloads: tuple[Workload, ...]
    is_interpreted: bool = False
    """Whether an interpreter runs it on the device, whose time says nothing."""
    left_out: str = ""
    """The timing or the Workloads that are left out because the kernel is interpreted."""

    @property
    def draft(self) -> Solution:
        """The kernel with the likeliest call."""
        return next(iter(self.drafts.values()))

    @property
    def note(self) -> str:
        """How the draft is called, unless with its Definition's inputs in order, and what is left out."""
        return "; ".join(filter(None, (self.draft.description, self.left_out)))


def plan_try(
    registry: Registry,
    definition: Definition,
    drafts: Mapping[KernelCall, Solution],
    batch_sizes: tuple[int, ...],
    device: Device,
    file: Path | None = None,
) -> TryPlan:
    """Choose the Workloads of `drafts`, one for each call that may be meant. A registry's Solution has no `file`.

    Raises UnsuitedError if the likeliest cannot run on the device, InputError if a requested batch size does not fit.
    """
    draft = next(iter(drafts.values()))
    if reason := reason_to_skip(draft, device, file):
        raise UnsuitedError(f"{draft.name}: {reason}")
    workloads = choose_fitting(registry, definition, batch_sizes, DEFAULT_BATCH_SIZES, device)
    interpreted = is_interpreted(draft, device)
    kept = [w for w in workloads if not interpreted or bytes_moved(definition, w) <= MAX_INTERPRETED_BYTES]
    if not kept:
        raise InputError(
            f"{definition.name} has no Workload that {draft.name} can run on {device.hardware}; "
            "see: fib-rmsnorm list workloads"
        )
    left_out = "interpreted, so not timed" if interpreted else ""
    if len(kept) < len(workloads):
        sizes = ", ".join(dict.fromkeys(NamedWorkload.of(each).title() for each in kept))
        left_out = f"interpreted, so only {sizes}; an interpreter is slow above {MAX_INTERPRETED_BYTES >> 20} MiB"
    return TryPlan(definition, drafts, tuple(kept), interpreted, left_out)


def choose_rivals(registry: Registry, definition: Definition, device: Device, besides: str = "") -> list[Solution]:
    """The plainest Python baseline, and the Solution that is the fastest by the Traces of this device.

    Not the one with the name `besides`: a registered Solution that is tried has no rival in itself.
    Without such Traces, the second is the first registered Solution that the device runs natively.
    """
    runnable = [
        solution
        for solution in read_current(registry, wants=lambda _, served: served == definition.name).by_name.values()
        if solution.definition == definition.name
        and solution.name != besides
        and reason_to_skip(solution, device) is None
        and not is_interpreted(solution, device)
    ]
    others = {s.name: s for s in runnable if s.author != BASELINE_AUTHOR}
    ranked = [
        (trace.performance.speedup_factor, trace.solution)
        for trace in registry.traces(definition.name)
        if trace.solution in others and trace.performance and trace.hardware == device.hardware
    ]
    best = others[max(ranked)[1]] if ranked else next(iter(others.values()), None)
    return list(filter(None, (find_baseline(runnable), best)))


def measure_distance(check: Check) -> tuple[int, int]:
    """How far a call is from the right one: by what it fails, and by the number of wrong elements."""
    far = _NEAREST.index(check.status) if check.status in _NEAREST else len(_NEAREST)
    return far, sum(case.mismatched for case in list_cases(check.correctness))
