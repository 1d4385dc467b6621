"""`fib-rmsnorm profile`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from fib_rmsnorm.cli.options import (
    BatchSizes,
    Entry,
    Json,
    KernelDefinition,
    Root,
    SolutionOrKernel,
    TimeLimit,
    check_output,
    split_sizes,
)
from fib_rmsnorm.cli.printing import note, print_json, say
from fib_rmsnorm.errors import InputError

_SUFFIX = ".ncu-rep"
_DEFAULT_BATCH_SIZES = (4096,)


def command(
    solution: SolutionOrKernel,
    batch_sizes: BatchSizes = None,
    definition: KernelDefinition = None,
    entry: Entry = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            callback=check_output,
            help="Report file for ncu-ui, several sizes: NAME.batchN.ncu-rep each; default: SOLUTION.batchN.ncu-rep.",
        ),
    ] = None,
    device: Annotated[str, typer.Option("--device", help="cuda or cuda:N.")] = "auto",
    timeout: TimeLimit = 300.0,
    root: Root = None,
    json: Json = False,
) -> None:
    """Profile one call of a Solution at each batch size (default: 4096) with NVIDIA's ncu: bandwidth, hits, stalls."""
    sizes = split_sizes(batch_sizes)
    if output is not None and output.suffix != _SUFFIX:
        raise InputError(f"--output {output}: the name must end in {_SUFFIX}")
    from fib_rmsnorm.machine.devices import choose_devices
    from fib_rmsnorm.profiling.ncu import profile
    from fib_rmsnorm.registry import Registry, choose_workloads
    from fib_rmsnorm.registry.selection import row_axis
    from fib_rmsnorm.registry.sources.draft import find_solution
    from fib_rmsnorm.reports.counters import describe_profile
    from fib_rmsnorm.reports.text.units import assignments

    registry = Registry.find_or_shipped(root)
    wanted, found = find_solution(registry, solution, definition, entry)
    place = choose_devices(device)[0]
    if place.kind == "cpu":
        raise InputError("profile needs a GPU; without one, see: fib-rmsnorm explain")
    records = []
    workloads = choose_workloads(wanted, registry.workloads(wanted.name), sizes, _DEFAULT_BATCH_SIZES)
    for workload in workloads:
        report = _report_file(output, found.name, workload.axes, alone=len(workloads) == 1)
        kernels = profile(wanted, found, workload, place, report, timeout, registry.root)
        if json:
            measured = [{**vars(each), "bandwidth_gb_per_s": each.bandwidth_gb_per_s} for each in kernels]
            known = {"solution": found.name, "definition": wanted.name, "axes": workload.axes}
            records.append({**known, "hardware": place.hardware, "report": str(report), "kernels": measured})
            continue
        say(f"{found.name} for {wanted.name} at {assignments(workload.axes)} on {place.hardware}")
        say(*describe_profile(kernels, workload.axes.get(row_axis(wanted) or "", 1)))
        note(f"\nWrote {report}; open it with: ncu-ui")
    if json:
        print_json(records)


def _report_file(output: Path | None, solution: str, axes: Mapping[str, int], *, alone: bool) -> Path:
    sizes = "".join(f".{axis}{size}" for axis, size in axes.items())
    if output is None:
        return Path(f"{solution}{sizes}{_SUFFIX}").absolute()
    return (output if alone else output.with_suffix(f"{sizes}{_SUFFIX}")).absolute()
