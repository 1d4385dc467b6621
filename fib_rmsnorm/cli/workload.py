"""`fib-rmsnorm workload`."""

from __future__ import annotations

from typing import Annotated

import typer

from fib_rmsnorm.cli.options import BatchSizes, DeviceName, Json, Root, split_batch_sizes


def command(
    definition: Annotated[str, typer.Option(help="The Definition.")] = "rmsnorm_d4096",
    batch_sizes: BatchSizes = None,
    eps: Annotated[float, typer.Option(help="The value of eps.")] = 1e-6,
    device: DeviceName = "auto",
    root: Root = None,
    json: Json = False,
) -> None:
    """Generate Workloads: by default 1 to 65536 rows, as far as the device's memory goes."""
    import json as json_module

    from fib_rmsnorm.evaluation.devices import choose_devices
    from fib_rmsnorm.evaluation.plan import fits
    from fib_rmsnorm.registry import Registry, generate_workloads
    from fib_rmsnorm.reports.console import stdout

    registry = Registry.find(root)
    wanted = registry.definition(definition)
    sizes = split_batch_sizes(batch_sizes)
    if sizes:
        workloads = generate_workloads(wanted, sizes, eps)
    else:
        target = choose_devices(device)[0]
        workloads = [w for w in generate_workloads(wanted, eps=eps) if fits(wanted, w, target)]
    path = registry.write_workloads(wanted, workloads)
    if json:
        typer.echo(json_module.dumps([workload.model_dump(mode="json") for workload in workloads], indent=2))
        return
    console = stdout()
    console.print(f"Workloads of {definition}:")
    for workload in workloads:
        console.print(f"  batch={workload.axes['batch']:<6} eps={eps:g}  {workload.uuid}")
    console.print(f"Wrote {path.relative_to(registry.root)}")
