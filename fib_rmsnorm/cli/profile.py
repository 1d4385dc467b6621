"""`fib-rmsnorm profile`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fib_rmsnorm.cli.options import Json, Root, check_output
from fib_rmsnorm.errors import InputError


def command(
    solution: Annotated[str, typer.Argument(help="Solution's name, or a kernel's file or source folder.")],
    batch: Annotated[int, typer.Option(min=1, help="Batch size of the Workload.")] = 4096,
    definition: Annotated[
        str | None, typer.Option(help="Definition; default: the Solution's own, else rmsnorm_d4096.")
    ] = None,
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
    from fib_rmsnorm.registry.draft import find_solution

    registry = Registry.find_or_shipped(root)
    wanted, found = find_solution(registry, solution, definition)
    (workload,) = generate_workloads(wanted, [batch])
    report = (output or Path(f"{found.name}.batch{batch}.ncu-rep")).absolute()
    if report.suffix != ".ncu-rep":
        raise InputError(f"--output {output}: the name must end in .ncu-rep")
    place = choose_devices(device)[0]
    counters = profile(wanted, found, workload, place, report, timeout, registry.root)
    kernels = [{**vars(each), "bandwidth_gb_per_s": each.bandwidth_gb_per_s} for each in counters]
    record: dict[str, object] = {
        "solution": found.name,
        "definition": wanted.name,
        "axes": workload.axes,
        "hardware": place.hardware,
        "report": str(report),
        "kernels": kernels,
    }
    _print(record, kernels, batch, as_json=json)


def _print(record: dict[str, object], kernels: list[dict[str, object]], batch: int, *, as_json: bool) -> None:
    from json import dumps

    from fib_rmsnorm.reports.counters import describe_profile
    from fib_rmsnorm.reports.text.console import stderr, stdout

    if as_json:
        typer.echo(dumps(record, indent=2))
        return
    stdout().print(f"{record['solution']} for {record['definition']} at batch={batch} on {record['hardware']}")
    for part in describe_profile(kernels, batch):
        stdout().print(part)
    stderr().print(f"\nWrote {record['report']}; open it with: ncu-ui")
