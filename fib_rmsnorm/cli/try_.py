"""`fib-rmsnorm try`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fib_rmsnorm.cli import completion
from fib_rmsnorm.cli.interrupts import importing
from fib_rmsnorm.cli.options import (
    Atol,
    BatchSizes,
    DeviceName,
    Entry,
    JsonLines,
    Root,
    Rtol,
    make_settings,
    split_batch_sizes,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fib_rmsnorm.cli.progress import ProgressBar
    from fib_rmsnorm.evaluation.scheduler import Event
    from fib_rmsnorm.evaluation.try_kernel import TryPlan
    from fib_rmsnorm.schema import Trace


def command(
    kernel: Annotated[Path, typer.Argument(help="A .py, .cu or .cpp file, or a folder with a solution.toml.")],
    definition: Annotated[
        str, typer.Option(autocompletion=completion.definition, help="Definition that the kernel computes.")
    ] = "rmsnorm_d4096",
    entry: Entry = None,
    batch_sizes: BatchSizes = None,
    device: DeviceName = "auto",
    rtol: Rtol = None,
    atol: Atol = None,
    timeout: Annotated[
        float, typer.Option(min=0.1, help="Time limit in seconds, for each build and each evaluation.")
    ] = 60.0,
    root: Root = None,
    json: JsonLines = False,
) -> int:
    """Check whether one kernel is correct and fast, and store nothing. Exit code 1 if it fails."""
    from contextlib import closing

    from fib_rmsnorm.cli.progress import ProgressBar
    from fib_rmsnorm.evaluation import ROLES
    from fib_rmsnorm.sandbox.fork_server import ForkServer

    sizes = split_batch_sizes(batch_sizes)
    if not kernel.exists():
        from fib_rmsnorm.errors import InputError

        raise InputError(f"no such file: {kernel}")
    with ForkServer(ROLES) as fork_server, ProgressBar() as bar:  # before our imports: it loads torch in parallel
        with importing():
            from fib_rmsnorm.evaluation.run_config import RunConfig
            from fib_rmsnorm.evaluation.try_kernel import plan_try, run_try
            from fib_rmsnorm.machine.devices import choose_devices
            from fib_rmsnorm.registry import Registry
            from fib_rmsnorm.registry.sources.draft import draft_solution

        registry = Registry.find_or_shipped(root)
        wanted = registry.definition(definition)
        draft = draft_solution(registry, kernel, wanted, entry)
        trial = plan_try(registry, wanted, draft, sizes, choose_devices(device)[0])
        config = RunConfig(make_settings(rtol=rtol, atol=atol), timeout, registry.root)
        with closing(run_try(fork_server, trial, config)) as events:
            return _report(trial, events, bar, as_json=json)


def _report(trial: TryPlan, events: Iterable[Event], bar: ProgressBar, *, as_json: bool) -> int:
    from fib_rmsnorm.errors import InputError
    from fib_rmsnorm.evaluation.plan import Skip
    from fib_rmsnorm.evaluation.scheduler import Building, Evaluated
    from fib_rmsnorm.reports.live.evaluations import folded_result
    from fib_rmsnorm.reports.live.try_verdict import describe_failures, passed, verdict
    from fib_rmsnorm.reports.text.console import stderr, stdout
    from fib_rmsnorm.reports.text.folding import Folded
    from fib_rmsnorm.reports.text.units import count

    spec = trial.draft.spec
    style = "destination-passing" if spec.destination_passing_style else "value-returning"
    bar.print(stderr(), f"{trial.draft.name}: {spec.language.value}, {style}, {spec.entry_point.partition('::')[2]}()")
    bar.print(stderr(), f"{trial.definition.name} on {trial.device.hardware}")
    bar.expect(len(trial.workloads) * (1 + len(trial.rivals)))
    width = max(len(solution.name) for solution in (trial.draft, *trial.rivals))
    drafts: list[Trace] = []
    rivals: list[Trace] = []
    for event in events:
        if isinstance(event, Building):
            bar.tell(f"building {count(event.solutions, 'solution')}")
        if isinstance(event, Skip):
            raise InputError(f"{trial.draft.name} was not judged: {event.reason}")
        if not isinstance(event, Evaluated):
            continue
        mine = event.trace.solution == trial.draft.name
        (drafts if mine else rivals).append(event.trace)
        bar.print(stdout(), event.trace.model_dump_json() if as_json else folded_result(event.trace, width))
        bar.advance("evaluating")
        if mine and len(drafts) == len(trial.workloads) and not passed(drafts):
            break  # the others' speed says nothing about a wrong kernel
    bar.stop()
    if not as_json:
        if failures := describe_failures(drafts):
            stdout().print()
            stdout().print(Folded(failures, 2))
        stdout().print()
        stdout().print(Folded(verdict(trial.draft.name, drafts, rivals), 4))
    return 0 if passed(drafts) else 1
