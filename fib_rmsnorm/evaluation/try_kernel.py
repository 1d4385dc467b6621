"""Judge the draft of one kernel, and time it beside a baseline and the fastest registered Solution."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from shlex import join

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.evaluation.correctness_gate import Admitted
from fib_rmsnorm.evaluation.device_runner import DeviceRunner
from fib_rmsnorm.evaluation.judging.comparer import ReferenceFailedError
from fib_rmsnorm.evaluation.plan import MAX_INTERPRETED_BYTES, Group, Skip, choose_fitting
from fib_rmsnorm.evaluation.run_config import RunConfig
from fib_rmsnorm.evaluation.scheduler import Building, Evaluated, Event
from fib_rmsnorm.languages import NEEDS_GPU
from fib_rmsnorm.machine.capabilities import is_interpreted, readiness, reason_to_skip
from fib_rmsnorm.machine.devices import Device
from fib_rmsnorm.registry import Registry, bytes_moved
from fib_rmsnorm.registry.sources.callees import KernelCall
from fib_rmsnorm.registry.sources.draft import ask_for_call
from fib_rmsnorm.registry.sources.packing import read_current
from fib_rmsnorm.sandbox.fork_server import ForkServer
from fib_rmsnorm.sandbox.process import run_in_threads
from fib_rmsnorm.schema import (
    Check,
    Definition,
    EvaluationStatus,
    Solution,
    SupportedLanguages,
    Trace,
    Workload,
    list_cases,
)

DEFAULT_BATCH_SIZES = (1, 32, 512)
BASELINE_AUTHOR = "baseline"
_CALL_LIMIT_S = 20.0
_NEAREST = [EvaluationStatus.INCORRECT_NUMERICAL, EvaluationStatus.INCORRECT_DTYPE, EvaluationStatus.INCORRECT_SHAPE]
"""The failures of calls that run."""
_NO_GPU = re.compile(
    r"Torch not compiled with CUDA enabled|Found no NVIDIA driver|No CUDA GPUs are available|Expected a cuda device"
    r"|\d+ active drivers|Cannot find backend|libcuda.so[.\d]* cannot|No registered target detector found"
)
"""Messages of exceptions that a kernel raises because it needs a GPU and there is none."""


@dataclass(frozen=True)
class TryPlan:
    """A draft, and the Solutions and Workloads with which it is measured."""

    definition: Definition
    draft: Solution
    drafts: Mapping[KernelCall, Solution]
    """The same with each call that may be meant, the likeliest first."""
    rivals: tuple[Solution, ...]
    workloads: tuple[Workload, ...]
    device: Device
    left_out: str = ""
    """The timing or the Workloads that are left out because the kernel is interpreted."""

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
    *,
    is_timed: bool = True,
    file: Path | None = None,
) -> TryPlan:
    """Choose the workloads, and the rivals if the draft's time will say something. A registry's Solution has no `file`.

    Of `drafts`, one for each call that may be meant, the likeliest one is planned until `find_right_call`. Raises
    InputError if it cannot run on the device, or if a requested batch size does not fit it.
    """
    draft = next(iter(drafts.values()))
    found = readiness(draft, device)
    if not found.runs:
        # `solve --build`, which compiles a registry's Solutions, does not know a file.
        explain = join(["fib-rmsnorm", "explain", str(file), "--definition", definition.name])
        by_file = f"{NEEDS_GPU}; to compile it here, run: {explain}"
        raise InputError(f"{draft.name}: {by_file if file and found.ability == 'compile' else found.note}")
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
        sizes = ", ".join(
            dict.fromkeys(" ".join(f"{axis}={size}" for axis, size in each.axes.items()) for each in kept)
        )
        left_out = f"interpreted, so only {sizes}; an interpreter is slow above {MAX_INTERPRETED_BYTES >> 20} MiB"
    rivals = choose_rivals(registry, definition, device, besides=draft.name) if is_timed and not interpreted else ()
    return TryPlan(definition, draft, drafts, rivals, tuple(kept), device, left_out)


def choose_rivals(
    registry: Registry, definition: Definition, device: Device, besides: str = ""
) -> tuple[Solution, ...]:
    """The plainest Python baseline, and the Solution that is the fastest by the Traces of this device.

    Not the one with the name `besides`: a registered Solution that is tried has no rival in itself.
    Without such Traces, the second is the first registered Solution that the device runs natively.
    """
    runnable = [
        solution
        for solution in read_current(registry).by_name.values()
        if solution.definition == definition.name
        and solution.name != besides
        and reason_to_skip(solution, device) is None
        and not is_interpreted(solution, device)
    ]
    baselines = [s for s in runnable if s.author == BASELINE_AUTHOR and s.spec.language is SupportedLanguages.PYTHON]
    others = {s.name: s for s in runnable if s.author != BASELINE_AUTHOR}
    ranked = sorted(
        (trace.evaluation.performance.speedup_factor, trace.solution)
        for trace in registry.traces(definition.name)
        if trace.solution in others
        and trace.evaluation is not None
        and trace.evaluation.status is EvaluationStatus.PASSED
        and trace.evaluation.performance is not None
        and trace.evaluation.environment.hardware == device.hardware
    )
    best = [others[ranked[-1][1]]] if ranked else list(others.values())[:1]
    return tuple(sorted(baselines, key=_plainness)[:1] + best)


def _plainness(solution: Solution) -> tuple[bool, int]:
    """A sort key: first the Solutions that run on CPUs too, which use torch alone; of them, the shortest source."""
    return "cpu" not in solution.spec.target_hardware, sum(len(source.content) for source in solution.sources)


def find_right_call(runner: DeviceRunner, trial: TryPlan, check: Callable[[Solution], Check | None]) -> TryPlan:
    """The plan with the draft whose call is right on its first Workload, by the `check` of each that may be meant.

    If none is, the nearest one is chosen: its verdict says what is wrong. Of equally likely calls those of all
    functions are made; a function that hangs is called no other way. A check of None ends the search. Raises
    KernelError if several functions are right, and ReferenceFailedError.
    """
    if len(trial.drafts) == 1:
        return trial
    checks: dict[KernelCall, Check] = {}
    hanging: set[str] = set()
    for _, equal in groupby(trial.drafts, key=lambda call: call.rank):
        right: dict[str, KernelCall] = {}
        for call in equal:
            if call.callee in right or call.callee in hanging:
                continue
            with runner.workers.limited(_CALL_LIMIT_S):
                found = check(trial.drafts[call])
            if found is None:
                return trial
            checks[call] = found
            if found.passed:
                right[call.callee] = call
            elif has_timed_out([found]):
                hanging.add(call.callee)
        if len(right) > 1:
            raise ask_for_call(f"{trial.draft.name}: {' and '.join(right)} are correct", right.values())
        if right:
            return replace(trial, draft=trial.drafts[right.popitem()[1]])
    return replace(trial, draft=trial.drafts[min(checks, key=lambda call: _distance(checks[call]))])


def _distance(check: Check) -> tuple[int, int]:
    """How far a call is from the right one: by what it fails, and by the number of wrong elements."""
    far = _NEAREST.index(check.status) if check.status in _NEAREST else len(_NEAREST)
    return far, sum(case.mismatched for case in list_cases(check.correctness))


def run_try(
    fork_server: ForkServer, wanted: TryPlan, config: RunConfig, *, timed: bool = True
) -> Generator[Event | Check]:
    """Judge the draft on every Workload, then time it where it is right, in turn with its rivals. Nothing is recorded.

    Each verdict is a Check. If it is `timed`, each evaluation of the draft and of a rival that ends is an Evaluated; if
    not, what shows only in timed calls is not found. Ends when the draft has timed out once, which it would do again
    on every other Workload. The speed of the rivals says nothing about a wrong draft, so they are left out then. A Skip
    means that the right outputs cannot be computed.
    """
    yield from run_in_threads([partial(_try, fork_server, wanted, config, timed=timed)], fork_server.stop)


def _try(fork_server: ForkServer, wanted: TryPlan, config: RunConfig, *, timed: bool) -> Iterator[Event | Check]:
    runner, definition, draft = DeviceRunner(fork_server, wanted.device, config), wanted.definition, wanted.draft
    known: dict[str, Admitted] = {}
    yield Building(1)
    try:
        with ThreadPoolExecutor(1) as pool:
            # What else a verdict needs, and timing, starts while the draft is built.
            warming = pool.submit(runner.warm_up, definition, wanted.workloads[0], timed=timed)
            for workload in wanted.workloads:
                check, verdict = runner.gate.check(definition, workload, draft)
                raises = check.status in (EvaluationStatus.COMPILE_ERROR, EvaluationStatus.RUNTIME_ERROR)
                if raises and wanted.device.kind == "cpu" and (lacking := _NO_GPU.search(check.log)):
                    yield Skip(definition.name, draft.name, f"{NEEDS_GPU} ({lacking[0]})", workload)
                    return
                yield check
                if isinstance(verdict, Admitted):
                    known[workload.uuid] = verdict
                elif timed:
                    yield Evaluated(runner.failed(definition, workload, draft, verdict))
                if has_timed_out([check]):
                    return
            warming.result()
        if not timed:
            return
        rivals = wanted.rivals if len(known) == len(wanted.workloads) else ()
        # The judge still has the right outputs of the last one, which is usually the largest.
        for workload in reversed([workload for workload in wanted.workloads if workload.uuid in known]):
            if unbuilt := runner.workers.count_unbuilt(rivals):
                yield Building(unbuilt)
            right = {draft.name: known[workload.uuid]}
            for found in runner.evaluate(Group(definition, workload, (draft, *rivals)), right):
                if isinstance(found, Trace):
                    yield Evaluated(found)
    except ReferenceFailedError as error:
        yield Skip(definition.name, None, str(error), wanted.workloads[0], is_failure=True)


def has_timed_out(checks: Sequence[Check]) -> bool:
    """Whether the draft timed out."""
    return any(check.status is EvaluationStatus.TIMEOUT for check in checks)
