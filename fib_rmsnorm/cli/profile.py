"""`fib-rmsnorm profile`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fib_rmsnorm.cli.options import Entry, Json, Root, check_output
from fib_rmsnorm.errors import InputError


def command(
    solution: Annotated[str, typer.Argument(help="Solution's name, or a kernel's file or source folder.")],
    batch: Annotated[int, typer.Option(min=1, help="Batch size of the Workload.")] = 4096,
    definition: Annotated[
        str | None, typer.Option(help="Definition; default: the Solution's own, else rmsnorm_d4096.")
    ] = None,
    entry: Entry = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            callback=check_output,
            help="Report file for ncu-ui; default: SOLUTION.batchN.ncu-rep.",
        ),
    ] = None,
    device: Annotated[str, typer.Option("--device", help="cuda or cuda:N.")] = "auto",
    timeout: Annotated[float, typer.Option(min=0.1, help="Time limit for the whole run, in seconds.")] = 300.0,
    root: Root = None,
    json: Json = False,
) -> None:
    """Profile one call of a Solution with NVIDIA's ncu. Shows bandwidth, cache hits, occupancy and warp stalls."""
    from fib_rmsnorm.machine.devices import choose_devices
    from fib_rmsnorm.profiling.ncu import profile
    from fib_rmsnorm.registry import Registry, generate_workloads
    from fib_rmsnorm.registry.sources.draft import find_solution

    registry = Registry.find_or_shipped(root)
    wanted, found = find_solution(registry, solution, definition, entry)
    (workload,) = generate_workloads(wanted, [batch])
    report = (output or Path(f"{found.name}.batch{batch}.ncu-rep")).absolute()
    if report.suffix != ".ncu-rep":
        raise InputError(f"--output {output}: the name must end in .ncu-rep")
    place = choose_devices(device)[0]
    counters = profile(wanted, found, workload, place, report, timeout, registry.root)
    if json:
        from json import dumps

        record = {
            "solution": found.name,
            "definition": wanted.name,
            "axes": workload.axes,
            "hardware": place.hardware,
            "report": str(report),
            "kernels": [{**vars(each), "bandwidth_gb_per_s": each.bandwidth_gb_per_s} for each in counters],
        }
        typer.echo(dumps(record, indent=2))
        return
    from fib_rmsnorm.reports.counters import describe_profile
    from fib_rmsnorm.reports.text.console import stderr, stdout

    stdout().print(f"{found.name} for {wanted.name} at batch={batch} on {place.hardware}")
    for part in describe_profile(counters, batch):
        stdout().print(part)
    stderr().print(f"\nWrote {report}; open it with: ncu-ui")
