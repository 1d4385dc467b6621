"""`fib-rmsnorm tune`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fib_rmsnorm.cli import options
from fib_rmsnorm.cli.printing import note
from fib_rmsnorm.cli.program import BAD_INPUT, KERNEL_FAILED
from fib_rmsnorm.errors import InputError

if TYPE_CHECKING:
    from fib_rmsnorm.evaluation.run_config import RunConfig
    from fib_rmsnorm.machine.devices import Device
    from fib_rmsnorm.registry import Registry
    from fib_rmsnorm.schema import Trace, Workload
    from fib_rmsnorm.tuning.tunable import Tunable, TunableFolder


def command(
    solution: Annotated[
        str,
        typer.Argument(
            metavar="SOLUTION",
            help="Solution's name or source folder, whose solution.toml needs a [tune]; or a kernel's file, with"
            " --set.",
        ),
    ],
    call: options.CallText = None,
    definitions: options.DefinitionNames = None,
    batch_sizes: options.BatchSizes = None,
    values: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=1,2", help="Values to try for a parameter, or for a number in a file; repeatable."
        ),
    ] = None,
    device: options.DeviceName = "auto",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Measure, but do not write the table.")] = False,
    timeout: options.TimeLimit = 120.0,
    root: options.Root = None,
    json: options.Json = False,
) -> int:
    """Find the fastest launch parameters of a Solution and write the table it reads.

    In a kernel's file, --set replaces the numbers of that name, such as BLOCK_SIZE = 256; the file stays as it is.
    """
    chosen = {
        name: options.split_sizes(given, "--set", least=0)
        for name, given in options.split_named("--set", values or []).items()
    }
    from fib_rmsnorm.evaluation.run_config import RunConfig
    from fib_rmsnorm.machine.capabilities import is_interpreted, reason_to_skip
    from fib_rmsnorm.machine.devices import choose_devices
    from fib_rmsnorm.registry import Registry
    from fib_rmsnorm.registry.selection import choose
    from fib_rmsnorm.registry.sources.draft import refuse_call
    from fib_rmsnorm.registry.store import require_writable
    from fib_rmsnorm.tuning.sweep import INTERPRETED_ROWS, choose_rows, count_multiprocessors, read_kept
    from fib_rmsnorm.tuning.tunable import find_in_file, find_tunables

    names, path = options.split_names(definitions), Path(solution)
    registry = Registry.find_or_shipped(root) if path.is_file() else Registry.find(root)
    folders: list[TunableFolder] = []
    swept: Sequence[Tunable]
    if path.is_file():
        wanted = choose("Definition", registry.definitions().values(), lambda each: each.name, names) if names else []
        swept = find_in_file(registry, path, wanted, call, chosen)
    else:
        refuse_call(solution, call)
        folders = find_tunables(registry, solution)
        named = choose("Definition", folders, lambda each: each.definition.name, names) if names else folders[:1]
        swept = [each.with_values(chosen) for each in named]
    for path in filter(None, (each.tuning_file for each in swept)):
        require_writable(path)
    first = swept[0]
    place = choose_devices(device)[0]
    if reason := reason_to_skip(first.solution, place, Path(solution) if Path(solution).exists() else None):
        raise InputError(f"{first.name}: {reason}")
    interpreted = is_interpreted(first.solution, place)
    if interpreted:  # said before the sweep
        what = f"judged on at most {INTERPRETED_ROWS} rows, not timed{'; no table will be written' if folders else ''}"
        note(f"Interpreted on {place.name}: {what}")
    sizes, config = options.split_sizes(batch_sizes), RunConfig(timeout_s=timeout, dataset=registry.root)
    planned = [(each, choose_rows(registry, each.definition, sizes)) for each in swept]
    traces, passes = _sweep(planned, place, config, as_json=json)
    if folders and passes and not dry_run and not interpreted:
        # From the stored Traces of devices that share the table, or from this run where none are stored.
        kept = read_kept(folders, place.hardware, count_multiprocessors(place))
        _write(registry, folders, {name: kept.get(name) or traces.get(name, []) for name in {**kept, **traces}})
    return 0 if passes else KERNEL_FAILED if any(traces.values()) else BAD_INPUT


def _sweep(
    planned: Sequence[tuple[Tunable, list[Workload]]], device: Device, config: RunConfig, *, as_json: bool
) -> tuple[dict[str, list[Trace]], int]:
    """Measure and print everything; return the Traces of each Definition, and how many passed."""
    from fib_rmsnorm.cli.progress import ProgressBar
    from fib_rmsnorm.cli.sweep_printer import SweepPrinter
    from fib_rmsnorm.schema import Trace
    from fib_rmsnorm.tuning.sweep import run_sweep

    traces: dict[str, list[Trace]] = {}
    passes = 0
    for tunable, workloads in planned:
        mine = traces.setdefault(tunable.definition.name, [])
        note(f"{tunable.name} for {tunable.definition.name} on {device.hardware}")
        with ProgressBar(doing="building") as bar, closing(run_sweep(tunable, device, config, workloads)) as events:
            printer = SweepPrinter(bar, as_json=as_json)
            for event in events:
                printer.show(event)
                mine += [event] if isinstance(event, Trace) else []
        passes += printer.print_results(tunable, device, workloads, config)
    return traces, passes


def _write(registry: Registry, tunables: Sequence[TunableFolder], traces: Mapping[str, Sequence[Trace]]) -> None:
    from fib_rmsnorm.tuning.choosing import write_table

    path = write_table(registry, tunables, traces)
    told = ", ".join(name for name, each in traces.items() if each)
    models = " and ".join(sorted({trace.hardware for each in traces.values() for trace in each}))
    note(f"Wrote {path} (choices for {told} on {models}); its Solutions are packed again")
    if stale := ", ".join(name for name, each in traces.items() if not each):
        note(f"No choices for {stale}: its timings come from other sources or another device; tune it too")
