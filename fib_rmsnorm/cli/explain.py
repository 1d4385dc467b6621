"""`fib-rmsnorm explain`."""

from __future__ import annotations

from typing import Annotated

import typer

from fib_rmsnorm.cli.options import BatchSizes, Entry, Json, KernelDefinition, Root, SolutionOrKernel, split_sizes
from fib_rmsnorm.cli.printing import say

_LIMIT_S = 300.0
"""The time limit of the build."""


def command(
    solution: SolutionOrKernel,
    definition: KernelDefinition = None,
    entry: Entry = None,
    arch: Annotated[
        str | None, typer.Option(metavar="sm_90", help="GPU architecture; default: this machine's, else sm_90.")
    ] = None,
    batch_sizes: BatchSizes = None,
    root: Root = None,
    json: Json = False,
) -> None:
    """Explain a Solution from its compiled code. Shows registers, memory accesses, occupancy, waves; needs no GPU."""
    from fib_rmsnorm.cli.progress import ProgressBar
    from fib_rmsnorm.inspection import COMPILER
    from fib_rmsnorm.sandbox.fork_server import ForkServer

    sizes = split_sizes(batch_sizes)
    with (
        ForkServer((COMPILER,)) as fork_server,
        ProgressBar() as bar,
    ):  # started before our own imports: it imports torch in parallel
        from fib_rmsnorm.evaluation.run_config import RunConfig
        from fib_rmsnorm.inspection.explanation import explain
        from fib_rmsnorm.machine.devices import choose_devices, gpu_arch
        from fib_rmsnorm.machine.gpu_models import DEFAULT_ARCH, check_arch
        from fib_rmsnorm.registry import Registry, choose_workloads
        from fib_rmsnorm.registry.sources.draft import find_solution
        from fib_rmsnorm.reports.explanation import describe_explanation
        from fib_rmsnorm.reports.text.console import echo
        from fib_rmsnorm.reports.text.folding import Folded
        from fib_rmsnorm.schema import Settings

        target = check_arch(arch) if arch else None
        registry = Registry.find_or_shipped(root)
        wanted, found = find_solution(registry, solution, definition, entry)
        workloads = choose_workloads(wanted, registry.workloads(wanted.name), sizes)
        here = choose_devices()[0]
        target = target or gpu_arch(here) or DEFAULT_ARCH
        device = here if gpu_arch(here) == target else None
        bar.tell(f"compiling for {target}")
        config = RunConfig(Settings(), _LIMIT_S)
        explanation = explain(fork_server, wanted, found, workloads, target, config, device)
    if json:
        echo(explanation.model_dump_json(indent=2))
        return
    for part in describe_explanation(explanation):
        say(Folded(part) if isinstance(part, str) else part)
