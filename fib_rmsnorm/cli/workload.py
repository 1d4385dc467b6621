"""`fib-rmsnorm workload`."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from fib_rmsnorm.cli import completion
from fib_rmsnorm.cli.options import (
    BatchSizes,
    DeviceName,
    Json,
    Root,
    split_batch_sizes,
    split_named,
    split_sizes,
    take_main_definition,
)
from fib_rmsnorm.errors import InputError

if TYPE_CHECKING:
    from fib_rmsnorm.registry import Registry
    from fib_rmsnorm.schema import Definition, Workload


def command(
    definition: Annotated[
        str | None,
        typer.Option(
            autocompletion=completion.definition, help="Definition to generate Workloads for; default: the main one."
        ),
    ] = None,
    batch_sizes: BatchSizes = None,
    axes: Annotated[
        list[str] | None,
        typer.Option("--axes", metavar="AXIS=1,8", help="Sizes of a variable axis; repeatable."),
    ] = None,
    scalars: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Value of a scalar input, such as eps; repeatable."),
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Remove the Definition's other Workloads; default: keep them.")
    ] = False,
    device: DeviceName = "auto",
    root: Root = None,
    json: Json = False,
) -> None:
    """Add Workloads to a Definition. The default is 1, 8, 32, 128 and 512 rows, if they fit the device's memory.

    Rows are the Definition's first variable axis, whose sizes --batch-sizes gives. With several axes, each combination
    of sizes is a Workload.
    """
    import json as json_module

    from fib_rmsnorm.registry import Registry
    from fib_rmsnorm.registry.files.locking import locked
    from fib_rmsnorm.reports.text.console import echo, stderr, stdout
    from fib_rmsnorm.reports.text.units import assignments, count

    sizes = {name: split_sizes("--axes", values) for name, values in split_named("--axes", axes or []).items()}
    values = {name: _read_number(name, value) for name, value in split_named("--set", scalars or []).items()}
    registry = Registry.find(root)
    definition = definition or take_main_definition(registry.root, "for another: --definition NAME")
    wanted = registry.definition(definition)
    workloads = _generate(wanted, split_batch_sizes(batch_sizes), sizes, values, device)
    made = {workload.uuid for workload in workloads}
    with locked(writing=[registry.root]):
        # One may lie in the files of two op_types.
        there = {workload.model_dump_json(): workload for workload in registry.workloads(wanted.name)}
        others = [workload for workload in there.values() if workload.uuid not in made]
        kept = [] if replace else others
        everything = sorted([*kept, *workloads], key=partial(_sizes_of, wanted)) if kept else workloads
        path = registry.write_workloads(wanted, everything)
    if removed := others if replace else []:
        stderr().print(_describe_removed(registry, removed))
    if json:
        echo(json_module.dumps([workload.model_dump(mode="json") for workload in workloads], indent=2))
        return
    console = stdout()
    console.print(f"Workloads of {wanted.name}:")
    chosen = {name: given.value for name, given in workloads[0].inputs.items() if given.type == "scalar"}
    width = max(len(assignments(workload.axes)) for workload in workloads)
    for workload in workloads:
        console.print(f"  {assignments(workload.axes):<{width}}  {assignments(chosen)}  {workload.uuid}")
    note = f"; kept {count(len(kept), 'existing Workload')}" if kept else ""
    console.print(f"Wrote {path.relative_to(registry.root)}{note}")


def _describe_removed(registry: Registry, removed: list[Workload]) -> str:
    """Say how many Workloads were removed, and how many Traces refer to them."""
    from fib_rmsnorm.reports.text.units import count

    what = f"Removed {count(len(removed), 'Workload')}"
    left = _count_traces(registry, {workload.uuid for workload in removed})
    if not left:
        return f"{what}; no Trace refers to {'it' if len(removed) == 1 else 'them'}"
    return f"{what} of {count(left, 'Trace')}, which validate rejects now"


def _count_traces(registry: Registry, uuids: set[str]) -> int:
    from fib_rmsnorm.analysis.loading import load_traces

    if not registry.layout.traces.is_dir():
        return 0
    found = load_traces([registry.layout.traces], registry.root, warn=lambda _: None)
    return sum(record.workload in uuids for record in found.records)


def _sizes_of(definition: Definition, workload: Workload) -> tuple[int, ...]:
    return tuple(workload.axes.get(name, 0) for name in definition.var_axes)


def _read_number(name: str, text: str) -> float:
    """Read an integer, a float, or `true` or `false`."""
    if text in ("true", "false"):
        return text == "true"
    for read in (int, float):
        with suppress(ValueError):
            return read(text)
    raise InputError(f"--set {name}={text}: {text!r} is not a number")


def _generate(
    definition: Definition,
    batch_sizes: tuple[int, ...],
    axes: dict[str, tuple[int, ...]],
    scalars: dict[str, float],
    device: str,
) -> list[Workload]:
    """Generate what was asked for; of the default sizes, those that obey the constraints and fit the device."""
    from fib_rmsnorm.evaluation.plan import fits
    from fib_rmsnorm.machine.devices import choose_devices
    from fib_rmsnorm.registry import generate_workloads
    from fib_rmsnorm.registry.validation.records import find_broken_constraints
    from fib_rmsnorm.registry.workload_generation import refuse_empty

    refuse_empty(definition)
    workloads = generate_workloads(definition, batch_sizes or None, axes, scalars)
    broken = [next(find_broken_constraints(definition, each), None) for each in workloads]
    is_asked_for = batch_sizes or axes.keys() >= {*definition.var_axes}
    faults = [fault for fault in broken if fault]
    if faults and (is_asked_for or all(broken)):
        raise InputError(f"{faults[0]}; give other sizes")
    if is_asked_for:
        return workloads
    target = choose_devices(device)[0]
    sound = [each for each, fault in zip(workloads, broken, strict=True) if not fault]
    fitting = [each for each in sound if fits(definition, each, target)]
    if not fitting:
        raise InputError(f"{definition.name}: no Workload of the default sizes fits {target.hardware}; give sizes")
    return fitting
