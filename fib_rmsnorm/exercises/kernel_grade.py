"""The grades of kernels: what the judge says of them on hard inputs, and whether they are what computes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.exercises.exercise import KernelTask, Task, find_definition
from fib_rmsnorm.languages import LANGUAGES
from fib_rmsnorm.registry import Registry
from fib_rmsnorm.schema import Check, Definition, Solution, SupportedLanguages

if TYPE_CHECKING:
    from fib_rmsnorm.sandbox.fork_server import ForkServer

_NO_LAUNCHES = """

import sys as _sys


class _NoLaunch:
    def __getitem__(self, grid):
        return self

    def __call__(self, *arguments, **options):
        return self


# Triton's kernels by their classes, so wherever the file keeps them.
for _module, _class in (("triton.runtime.jit", "JITFunction"), ("triton.runtime.interpreter", "InterpretedFunction")):
    if _module in _sys.modules:
        getattr(_sys.modules[_module], _class).run = _NoLaunch()
for _name, _value in list(globals().items()):
    if type(_value).__module__.startswith("tilelang.") and callable(_value):  # @tilelang.jit
        globals()[_name] = _NoLaunch()
    elif getattr(_value, "__name__", "") in ("tilelang", "cutlass.cute"):  # modules whose compile() makes kernels
        _value.compile = _NoLaunch()
"""
"""Source that makes all launches do nothing."""

_MOVES = (
    *("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"),
    *("zeros", "zeros_like", "new_zeros", "ones", "ones_like", "new_ones", "full", "full_like", "new_full"),
    *("zero_", "fill_", "copy_", "_to_copy", "clone", "detach", "alias", "lift_fresh", "set_"),
    *("view", "_unsafe_view", "_reshape_alias", "as_strided", "t", "transpose", "permute", "expand"),
    *("slice", "select", "unsqueeze", "squeeze", "split", "unbind"),
)
"""Operators of torch that allocate, fill, copy or view, and compute nothing."""
_REFUSAL = "refused while it is graded"
_NO_ARITHMETIC = """

import functools as _functools

from torch.utils._python_dispatch import TorchDispatchMode as _TorchDispatchMode


class _NoArithmetic(_TorchDispatchMode):
    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        name = operator.overloadpacket.__name__
        if name not in {moves!r}:
            raise RuntimeError(f"torch.{{name}} is {refusal}")
        return operator(*args, **(kwargs or {{}}))


def _without_arithmetic(judged):
    @_functools.wraps(judged)
    def call(*arguments):
        with _NoArithmetic():
            return judged(*arguments)

    return call


{entry} = _without_arithmetic({entry})
"""
"""Source with which a call of this function fails as soon as torch computes anything in it."""


def grade_kernels(registry: Registry, kernels: Sequence[KernelTask]) -> list[Task]:
    """Judge each file as `try --check` does; then without launches, when it should be wrong; then without arithmetic of
    torch, when it should still be right.

    Raises InputError if the judge cannot judge.
    """
    from fib_rmsnorm.evaluation import ROLES
    from fib_rmsnorm.sandbox.fork_server import ForkServer

    drafts = [_draft(registry, each) for each in kernels]
    if all(isinstance(draft, str) for draft in drafts):
        return [_grade(each, str(fault)) for each, fault in zip(kernels, drafts, strict=True)]
    with ForkServer(ROLES, {"OMP_WAIT_POLICY": "passive"}) as fork_server:

        def judge(kernel: KernelTask, draft: Solution | str) -> Task:
            fault = draft if isinstance(draft, str) else _find_fault(fork_server, registry, kernel, draft)
            return _grade(kernel, fault)

        return [judge(each, draft) for each, draft in zip(kernels, drafts, strict=True)]


def _grade(kernel: KernelTask, fault: str) -> Task:
    return Task(kernel.title, kernel.points, 0 if fault else kernel.points, (fault,) if fault else ())


def _draft(registry: Registry, kernel: KernelTask) -> Solution | str:
    """The Solution that the file makes, or why it makes none."""
    from fib_rmsnorm.registry.sources.draft import draft_solution

    file = registry.root / kernel.file
    try:
        draft = draft_solution(registry, file, find_definition(kernel.definition), "run")
    except InputError as error:
        return str(error)
    if draft.spec.language is not SupportedLanguages(kernel.language):
        return f"{kernel.file} is not in {LANGUAGES[kernel.language].title}, but in {draft.spec.language.value}"
    spec = draft.spec.model_copy(update={"entry_point": f"{kernel.file}::{kernel.entry}"})
    return _with_source(draft.model_copy(update={"spec": spec}), kernel.caller, [kernel.file])


def _find_fault(fork_server: ForkServer, registry: Registry, kernel: KernelTask, draft: Solution) -> str:
    """The first failure, or that the kernels are not what computes; empty if all is well."""
    definition = find_definition(kernel.definition)
    for check in _judge(fork_server, registry, definition, draft):
        if not check.passed:
            first = next(iter(check.log.strip().splitlines()), "")
            return f"{check.status.value} at batch={check.workload.axes['batch']}: {first}"
    if LANGUAGES[kernel.language].is_compiled or not kernel.launches:
        return ""

    kernels = f"its {LANGUAGES[kernel.language].title} kernels"
    without = _with_source(draft, _NO_LAUNCHES, [source.path for source in draft.sources])
    if all(check.passed for check in _judge(fork_server, registry, definition, without, (1,))):
        return f"right, but it is as right without {kernels}: nothing depends on them"
    refusing = _NO_ARITHMETIC.format(moves=_MOVES, refusal=_REFUSAL, entry=kernel.entry)
    alone = _with_source(draft, refusing, [kernel.file])
    refused = (_find_refused(check.log) for check in _judge(fork_server, registry, definition, alone, (1,)))
    return next((f"right, but {each} computes what {kernels} should" for each in refused if each), "")


def _find_refused(log: str) -> str | None:
    """The first operator of torch that was refused, by the log of a failed call; None if it failed otherwise."""
    before, refused, _ = log.partition(f" is {_REFUSAL}")
    return before.split()[-1] if refused else None


def _judge(
    fork_server: ForkServer,
    registry: Registry,
    definition: Definition,
    solution: Solution,
    batch_sizes: tuple[int, ...] = (),
) -> list[Check]:
    from fib_rmsnorm.evaluation.plan import Skip
    from fib_rmsnorm.evaluation.run_config import RunConfig
    from fib_rmsnorm.evaluation.try_kernel import plan_try, run_try
    from fib_rmsnorm.machine.devices import choose_devices
    from fib_rmsnorm.schema import Settings

    trial = plan_try(registry, definition, solution, batch_sizes, choose_devices()[0], is_timed=False)
    checks = []
    config = RunConfig(Settings(), 60.0, registry.root)
    with closing(run_try(fork_server, trial, config, timed=False)) as events:
        for event in events:
            if isinstance(event, Skip):
                raise InputError(f"{solution.name} was not judged: {event.reason}")
            if isinstance(event, Check):
                checks.append(event)
    return checks


def _with_source(solution: Solution, added: str, files: Sequence[str]) -> Solution:
    """The same sources, with more at the end of these files."""
    sources = [
        source.model_copy(update={"content": source.content + added}) if source.path in files else source
        for source in solution.sources
    ]
    return solution.model_copy(update={"sources": sources})
