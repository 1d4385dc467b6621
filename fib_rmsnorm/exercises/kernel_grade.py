"""The grade of a kernel in Triton: what the judge says of it on hard inputs, with its kernels and without."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.exercises.exercise import Task
from fib_rmsnorm.registry import Registry
from fib_rmsnorm.schema import Check, Definition, Solution, SupportedLanguages

if TYPE_CHECKING:
    from fib_rmsnorm.sandbox.fork_server import ForkServer

_TITLE, _POINTS = "Kernel", 40
_ENTRY = "run"  # as the starter has it
_NO_LAUNCHES = """

class _NoLaunch:
    def __getitem__(self, grid):
        return lambda *arguments, **options: None


for _name, _value in list(globals().items()):
    if hasattr(_value, "run") and type(_value).__module__.startswith("triton."):
        globals()[_name] = _NoLaunch()
"""


def grade_kernel(registry: Registry, definition: Definition, file: Path) -> Task:
    """Judge a file as `try --check` does, and then without its kernels, when it should be wrong.

    Raises InputError if the judge cannot judge.
    """
    from fib_rmsnorm.registry.sources.draft import draft_solution

    try:
        draft = draft_solution(registry, file, definition, _ENTRY)
    except InputError as error:
        return Task(_TITLE, _POINTS, 0, (str(error),))
    if draft.spec.language is not SupportedLanguages.TRITON:
        return Task(_TITLE, _POINTS, 0, (f"{file.name} is not in Triton, but in {draft.spec.language.value}",))
    fault = _find_fault(registry, definition, draft)
    return Task(_TITLE, _POINTS, 0, (fault,)) if fault else Task(_TITLE, _POINTS, _POINTS)


def _find_fault(registry: Registry, definition: Definition, draft: Solution) -> str:
    """The first failure, or that nothing depends on the kernels; empty if all is well."""
    from fib_rmsnorm.evaluation import ROLES
    from fib_rmsnorm.sandbox.fork_server import ForkServer

    with ForkServer(ROLES, {"OMP_WAIT_POLICY": "passive"}) as fork_server:
        for check in _judge(fork_server, registry, definition, draft):
            if not check.passed:
                first = next(iter(check.log.strip().splitlines()), "")
                return f"{check.status.value} at batch={check.workload.axes['batch']}: {first}"
        without = _without_launches(draft)
        if all(check.passed for check in _judge(fork_server, registry, definition, without, (1,))):
            return "right, but it is as right without its Triton kernels: nothing depends on them"
    return ""


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


def _without_launches(solution: Solution) -> Solution:
    """The same sources, in which launching a kernel does nothing."""
    sources = [source.model_copy(update={"content": source.content + _NO_LAUNCHES}) for source in solution.sources]
    return solution.model_copy(update={"sources": sources})
