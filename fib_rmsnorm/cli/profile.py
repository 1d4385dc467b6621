"""`fib-rmsnorm profile`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fib_rmsnorm.cli.options import (
    BatchSizes,
    Entry,
    Json,
    OwnDefinition,
    Root,
    SolutionOrKernel,
    check_output,
    split_batch_sizes,
)
from fib_rmsnorm.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fib_rmsnorm.machine.devices import Device
    from fib_rmsnorm.profiling.ncu import KernelCounters
    from fib_rmsnorm.schema import Definition, Solution, Workload

_SUFFIX = ".ncu-rep"
_DEFAULT_BATCH_SIZES = (4096,)


def command(
    solution: SolutionOrKernel,
    batch_sizes: BatchSizes = None,
    definition: OwnDefinition = None,
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
    timeout: Annotated[float, typer.Option(min=0.1, help="Time limit for each batch size, in seconds.")] = 300.0,
    root: Root = None,
    json: Json = False,
) -> None:
    """Profile one call of a Solution at each batch size (default: 4096) with NVIDIA's ncu: bandwidth, hits, stalls."""
    sizes = split_batch_sizes(batch_sizes)
    if output is not None and output.suffix != _SUFFIX:
        raise InputError(f"--output {output}: the name must end in {_SUFFIX}")
    from fib_rmsnorm.machine.devices import choose_devices
    from fib_rmsnorm.profiling.ncu import profile
    from fib_rmsnorm.registry import Registry, choose_workloads
    from fib_rmsnorm.registry.sources.draft import find_solution

    registry = Registry.find_or_shipped(root)
    wanted, found = find_solution(registry, solution, definition, entry)
    place = choose_devices(device)[0]
    if place.kind == "cpu":
        options = {"--definition": definition, "--entry": entry, "--root": root}
        raise InputError(_without_gpu(found, ["fib-rmsnorm", "explain", solution, *_given(options)]))
    records = []
    workloads = choose_workloads(wanted, registry.workloads(wanted.name), sizes, _DEFAULT_BATCH_SIZES)
    for workload in workloads:
        report = _report_file(output, found.name, workload.axes, alone=len(workloads) == 1)
        counters = profile(wanted, found, workload, place, report, timeout, registry.root)
        if json:
            records.append(_record(wanted, found, workload, place, report, counters))
        else:
            _print(wanted, found, workload, place, report, counters)
    if json:
        from json import dumps

        from fib_rmsnorm.reports.text.console import echo

        echo(dumps(records, indent=2))


def _given(options: Mapping[str, object]) -> list[str]:
    return [word for option, value in options.items() if value is not None for word in (option, str(value))]


def _without_gpu(solution: Solution, explain: list[str]) -> str:
    """What to do instead: `explain`, of a language that it reads."""
    from shlex import join

    from fib_rmsnorm.languages import LANGUAGES

    language = LANGUAGES[solution.spec.language.value]
    instead = f"; without one, use: {join(explain)}" if language.has_compiled_code else ""
    return f"profile needs a GPU{instead}"


def _report_file(output: Path | None, solution: str, axes: Mapping[str, int], *, alone: bool) -> Path:
    sizes = "".join(f".{axis}{size}" for axis, size in axes.items())
    if output is None:
        return Path(f"{solution}{sizes}{_SUFFIX}").absolute()
    return (output if alone else output.with_suffix(f"{sizes}{_SUFFIX}")).absolute()


def _record(
    definition: Definition,
    solution: Solution,
    workload: Workload,
    device: Device,
    report: Path,
    counters: list[KernelCounters],
) -> dict[str, object]:
    return {
        "solution": solution.name,
        "definition": definition.name,
        "axes": workload.axes,
        "hardware": device.hardware,
        "report": str(report),
        "kernels": [{**vars(each), "bandwidth_gb_per_s": each.bandwidth_gb_per_s} for each in counters],
    }


def _print(
    definition: Definition,
    solution: Solution,
    workload: Workload,
    device: Device,
    report: Path,
    counters: list[KernelCounters],
) -> None:
    from fib_rmsnorm.registry.selection import row_axis
    from fib_rmsnorm.reports.counters import describe_profile
    from fib_rmsnorm.reports.text.console import stderr, stdout
    from fib_rmsnorm.reports.text.units import assignments

    rows = workload.axes.get(row_axis(definition) or "", 1)
    stdout().print(f"{solution.name} for {definition.name} at {assignments(workload.axes)} on {device.hardware}")
    for part in describe_profile(counters, rows):
        stdout().print(part)
    stderr().print(f"\nWrote {report}; open it with: ncu-ui")
