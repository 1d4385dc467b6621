"""The grades of kernels: what the judge says of them on hard inputs, and whether they are what computes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.exercises.added_sources import NO_LAUNCHES, find_refused, refuse_arithmetic
from fib_rmsnorm.exercises.exercise import Task
from fib_rmsnorm.languages import LANGUAGES
from fib_rmsnorm.registry import Registry
from fib_rmsnorm.schema import Check, Definition, Solution, SupportedLanguages

if TYPE_CHECKING:
    from fib_rmsnorm.sandbox.fork_server import ForkServer

_STARTERS_ENTRY = "run"


@dataclass(frozen=True)
class KernelTask:
    """A file with a kernel, and the Definition that it must compute."""

    title: str
    points: int
    definition: Definition
    file: Path
    language: str = "triton"
    launches: bool = True
    """Whether it must launch kernels of its own, where its language can do without."""
    caller: str = ""
    """Source added to the file: a function of the same parameters that calls something else of the student's."""
    entry: str = _STARTERS_ENTRY
    """The function to judge: of the file, or of what is added to it."""


def grade_kernels(registry: Registry, tasks: Sequence[KernelTask]) -> list[Task]:
    """Judge each file as `try --check` does; then without launches, when it should be wrong; then without arithmetic of
    torch, when it should still be right.

    Raises InputError if the judge cannot judge.
    """
    from fib_rmsnorm.evaluation import ROLES
    from fib_rmsnorm.sandbox.fork_server import ForkServer

    drafts = [_draft(registry, task) for task in tasks]
    if all(isinstance(draft, str) for draft in drafts):
        return [_grade(task, str(fault)) for task, fault in zip(tasks, drafts, strict=True)]
    with ForkServer(ROLES, {"OMP_WAIT_POLICY": "passive"}) as fork_server:

        def judge(task: KernelTask, draft: Solution | str) -> Task:
            return _grade(task, draft if isinstance(draft, str) else _find_fault(fork_server, registry, task, draft))

        return [judge(task, draft) for task, draft in zip(tasks, drafts, strict=True)]


def _grade(task: KernelTask, fault: str) -> Task:
    return Task(task.title, task.points, 0 if fault else task.points, (fault,) if fault else ())


def _draft(registry: Registry, task: KernelTask) -> Solution | str:
    """The Solution that the file makes, or why it makes none."""
    from fib_rmsnorm.registry.sources.draft import draft_solution

    try:
        draft = draft_solution(registry, task.file, task.definition, _STARTERS_ENTRY)
    except InputError as error:
        return str(error)
    if draft.spec.language is not SupportedLanguages(task.language):
        return f"{task.file.name} is not in {LANGUAGES[task.language].title}, but in {draft.spec.language.value}"
    spec = draft.spec.model_copy(update={"entry_point": f"{task.file.name}::{task.entry}"})
    return _with_source(draft.model_copy(update={"spec": spec}), task.caller, [task.file.name])


def _find_fault(fork_server: ForkServer, registry: Registry, task: KernelTask, draft: Solution) -> str:
    """The first failure, or that the kernels are not what computes; empty if all is well."""
    for check in _judge(fork_server, registry, task.definition, draft):
        if not check.passed:
            first = next(iter(check.log.strip().splitlines()), "")
            return f"{check.status.value} at batch={check.workload.axes['batch']}: {first}"
    if LANGUAGES[task.language].is_compiled or not task.launches:
        return ""

    kernels = f"its {LANGUAGES[task.language].title} kernels"
    without = _with_source(draft, NO_LAUNCHES, [source.path for source in draft.sources])
    if all(check.passed for check in _judge(fork_server, registry, task.definition, without, (1,))):
        return f"right, but it is as right without {kernels}: nothing depends on them"
    alone = _with_source(draft, refuse_arithmetic(task.entry), [task.file.name])
    refused = (find_refused(check.log) for check in _judge(fork_server, registry, task.definition, alone, (1,)))
    return next((f"right, but {each} computes what {kernels} should" for each in refused if each), "")


def _judge(
    fork_server: ForkServer,
    registry: Registry,
    definition: Definition,
    solution: Solution,
    batch_sizes: tuple[int, ...] = (),
) -> list[Check]:
    from fib_rmsnorm.evaluation.run_config import RunConfig
    from fib_rmsnorm.evaluation.try_kernel import plan_try, run_check
    from fib_rmsnorm.machine.devices import choose_devices
    from fib_rmsnorm.schema import Settings

    trial = plan_try(registry, definition, solution, batch_sizes, choose_devices()[0], is_timed=False)
    checks = []
    with closing(run_check(fork_server, trial, RunConfig(Settings(), 60.0, registry.root))) as events:
        for event in events:
            if not isinstance(event, Check):
                raise InputError(f"{solution.name} was not judged: {event.reason}")
            checks.append(event)
    return checks


def _with_source(solution: Solution, added: str, files: Sequence[str]) -> Solution:
    """The same sources, with more at the end of these files."""
    sources = [
        source.model_copy(update={"content": source.content + added}) if source.path in files else source
        for source in solution.sources
    ]
    return solution.model_copy(update={"sources": sources})
