"""`fib-rmsnorm workload`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from fib_rmsnorm.cli import completion
from fib_rmsnorm.cli.options import BatchSizes, DeviceName, Json, Root, split_batch_sizes

if TYPE_CHECKING:
    from fib_rmsnorm.registry import Registry
    from fib_rmsnorm.schema import Definition, Workload


def command(
    definition: Annotated[
        str, typer.Option(autocompletion=completion.definition, help="Definition to generate Workloads for.")
    ] = "rmsnorm_d4096",
    batch_sizes: BatchSizes = None,
    eps: Annotated[float, typer.Option(help="Value of eps.")] = 1e-6,
    replace: Annotated[
        bool, typer.Option("--replace", help="Remove the Definition's other Workloads; default: keep them.")
    ] = False,
    device: DeviceName = "auto",
    root: Root = None,
    json: Json = False,
) -> None:
    """Add Workloads to a Definition. The default is 1 to 65536 rows, as many as fit the device's memory."""
    import json as json_module

    from fib_rmsnorm.registry import Registry
    from fib_rmsnorm.registry.files.locking import locked
    from fib_rmsnorm.reports.text.console import echo, stderr, stdout
    from fib_rmsnorm.reports.text.units import count

    registry = Registry.find(root)
    wanted = registry.definition(definition)
    workloads = _generate(wanted, split_batch_sizes(batch_sizes), eps, device)
    made = {workload.uuid for workload in workloads}
    with locked(writing=[registry.root]):
        others = [workload for workload in registry.workloads(definition) if workload.uuid not in made]
        kept = [] if replace else others
        everything = sorted([*kept, *workloads], key=lambda each: each.axes.get("batch", 0)) if kept else workloads
        path = registry.write_workloads(wanted, everything)
    if removed := others if replace else []:
        stderr().print(_describe_removed(registry, wanted, removed))
    if json:
        echo(json_module.dumps([workload.model_dump(mode="json") for workload in workloads], indent=2))
        return
    console = stdout()
    console.print(f"Workloads of {definition}:")
    for workload in workloads:
        console.print(f"  batch={workload.axes['batch']:<6} eps={eps:g}  {workload.uuid}")
    note = f"; kept {count(len(kept), 'existing Workload')}" if kept else ""
    console.print(f"Wrote {path.relative_to(registry.root)}{note}")


def _describe_removed(registry: Registry, definition: Definition, removed: list[Workload]) -> str:
    """Say how many Workloads were removed, how many Traces refer to them, and how to get them back."""
    from fib_rmsnorm.registry.workload_generation import generating_command
    from fib_rmsnorm.reports.text.units import count

    what = f"Removed {count(len(removed), 'Workload')}"
    left = _count_traces(registry, {workload.uuid for workload in removed})
    if not left:
        return f"{what}; no Trace refers to {'it' if len(removed) == 1 else 'them'}"
    command = generating_command(definition, removed)
    restore = f"; to restore: {command}" if command else ""
    return f"{what} of {count(left, 'Trace')}, which validate rejects now{restore}"


def _count_traces(registry: Registry, uuids: set[str]) -> int:
    from fib_rmsnorm.analysis.loading import load_traces

    if not registry.layout.traces.is_dir():
        return 0
    found = load_traces([registry.layout.traces], registry.root, warn=lambda _: None)
    return sum(record.workload in uuids for record in found.records)


def _generate(definition: Definition, sizes: tuple[int, ...], eps: float, device: str) -> list[Workload]:
    from fib_rmsnorm.evaluation.plan import fits
    from fib_rmsnorm.machine.devices import choose_devices
    from fib_rmsnorm.registry import generate_workloads

    if sizes:
        return generate_workloads(definition, sizes, eps)
    target = choose_devices(device)[0]
    return [each for each in generate_workloads(definition, eps=eps) if fits(definition, each, target)]
