"""`fib-rmsnorm tune`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fib_rmsnorm.cli import completion
from fib_rmsnorm.cli.options import (
    BatchSizes,
    DefinitionNames,
    DeviceName,
    Json,
    Root,
    TimeLimit,
    check_output,
    split_batch_sizes,
    split_names,
)
from fib_rmsnorm.errors import InputError

if TYPE_CHECKING:
    from fib_rmsnorm.evaluation.run_config import RunConfig
    from fib_rmsnorm.machine.devices import Device
    from fib_rmsnorm.registry import Registry
    from fib_rmsnorm.reports.live.sweep import SweepResults
    from fib_rmsnorm.schema import Trace
    from fib_rmsnorm.tuning.sweep import SweepOptions
    from fib_rmsnorm.tuning.tunable import Tunable


def command(
    solution: Annotated[
        str,
        typer.Argument(
            autocompletion=completion.solution,
            help="Solution's name or source folder; its solution.toml needs a [tune].",
        ),
    ],
    definitions: DefinitionNames = None,
    batch_sizes: BatchSizes = None,
    values: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=1,2", help="Values to try for a parameter; repeatable."),
    ] = None,
    device: DeviceName = "auto",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", callback=check_output, help="Also write the Traces to a .json or .jsonl file."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Measure, but do not write the table.")] = False,
    reuse: Annotated[
        bool, typer.Option("--reuse", help="Measure nothing; write the table from stored Traces.")
    ] = False,
    timeout: TimeLimit = 120.0,
    root: Root = None,
    json: Json = False,
) -> int:
    """Find the fastest launch parameters of a Solution and write the table it reads."""
    chosen = _split_values(values or [])
    from fib_rmsnorm.evaluation.recorder import OutputFile
    from fib_rmsnorm.evaluation.run_config import RunConfig
    from fib_rmsnorm.machine.capabilities import is_interpreted
    from fib_rmsnorm.machine.devices import choose_devices
    from fib_rmsnorm.registry import Registry
    from fib_rmsnorm.registry.workload_generation import DEFAULT_BATCH_SIZES, LARGE_BATCH_SIZES
    from fib_rmsnorm.reports.text.console import stderr
    from fib_rmsnorm.schema import Settings
    from fib_rmsnorm.tuning.sweep import INTERPRETED_ROWS, SweepOptions, check_device
    from fib_rmsnorm.tuning.tunable import find_tunables

    registry = Registry.find(root)
    tunables = find_tunables(registry, solution)
    if reuse:
        return _reuse(registry, tunables)
    swept = _choose(tunables, split_names(definitions))
    for tunable in swept:
        tunable.combinations(chosen)  # reports a bad request before anything starts
    place = choose_devices(device)[0]
    check_device(tunables, place)
    sizes = split_batch_sizes(batch_sizes) or (*DEFAULT_BATCH_SIZES, *LARGE_BATCH_SIZES)
    if is_interpreted(tunables[0].solution, place):  # said before the sweep
        stderr().print(
            f"Interpreted on {place.name}: judged on at most {INTERPRETED_ROWS} rows, not timed; no table will be"
            " written"
        )
    with OutputFile(output) if output else nullcontext() as file:
        options = SweepOptions(sizes, chosen, file)
        traces, passes = _sweep(swept, place, options, RunConfig(Settings(), timeout, registry.root), as_json=json)
    if passes and not dry_run and not is_interpreted(tunables[0].solution, place):
        _finish(registry, tunables, place, traces)
    return 0 if passes else 1


def _choose(tunables: list[Tunable], definitions: Sequence[str]) -> list[Tunable]:
    """Keep the Definitions that the globs match; no globs keep the sources' own Definition."""
    from fib_rmsnorm.registry.selection import choose

    if not definitions:
        return tunables[:1]
    return choose("Definition", tunables, lambda each: each.definition.name, definitions)


def _reuse(registry: Registry, tunables: Sequence[Tunable]) -> int:
    from fib_rmsnorm.tuning.choosing import collect_timings
    from fib_rmsnorm.tuning.sweep import read_kept

    kept = read_kept(tunables, None)
    if not any(map(collect_timings, kept.values())):
        raise InputError(f"{tunables[0].name}: no timings are stored for its current sources; run tune without --reuse")
    _write(registry, tunables, kept)
    return 0


def _finish(
    registry: Registry, tunables: Sequence[Tunable], device: Device, traces: Mapping[str, Sequence[Trace]]
) -> None:
    """Write the table from the stored Traces of devices that share it, or from this run where none are stored."""
    from fib_rmsnorm.tuning.sweep import read_kept

    kept = read_kept(tunables, device)
    _write(registry, tunables, {name: kept.get(name) or traces.get(name, []) for name in {**kept, **traces}})


def _split_values(values: Sequence[str]) -> dict[str, tuple[int, ...]]:
    chosen = {}
    for value in values:
        name, equals, numbers = value.partition("=")
        parts = split_names(numbers)
        if not equals or not parts or not all(part.isdecimal() for part in parts):
            raise InputError(f"--set {value!r}: expected NAME=VALUES, such as threads=128,256")
        chosen[name.strip()] = tuple(int(part) for part in parts)
    return chosen


def _sweep(
    tunables: Sequence[Tunable], device: Device, options: SweepOptions, config: RunConfig, *, as_json: bool
) -> tuple[dict[str, list[Trace]], int]:
    """Measure and print everything; return the Traces of each Definition, and how many passed."""
    from contextlib import closing

    from fib_rmsnorm.cli.sweep_printer import SweepPrinter
    from fib_rmsnorm.machine.capabilities import is_interpreted
    from fib_rmsnorm.reports.text.console import stderr
    from fib_rmsnorm.reports.text.folding import Folded
    from fib_rmsnorm.tuning.sweep import Sweep, Tried

    traces: dict[str, list[Trace]] = {}
    passes = 0
    for tunable in tunables:
        sweep = Sweep(tunable, device, config)
        mine = traces.setdefault(tunable.definition.name, [])
        stderr().print(f"{tunable.name} for {tunable.definition.name} on {device.hardware}")
        with SweepPrinter(as_json=as_json) as printer, closing(sweep.run(options)) as events:
            for event in events:
                printer.show(event)
                mine += [event.trace] if isinstance(event, Tried) else []
        passes += printer.results.passes
        if printer.results.batches:
            _print_results(tunable, printer.results, device, options, config, as_json=as_json)
            if is_interpreted(tunable.solution, device):
                stderr().print(Folded(_untimed_line(tunable, printer.results), 2))
    return traces, passes


def _untimed_line(tunable: Tunable, results: SweepResults) -> str:
    """What an interpreter judged, at the end of a sweep whose beginning said what would not come of it."""
    judged = results.passes + results.failures
    sizes = ", ".join(map(results.name_batch, results.batches))
    what = f"{results.passes} of {judged} right at {sizes}"
    return f"{tunable.definition.name}: {what}; nothing was timed, and no table was written"


def _print_results(
    tunable: Tunable, results: SweepResults, device: Device, options: SweepOptions, config: RunConfig, *, as_json: bool
) -> None:
    from json import dumps

    from fib_rmsnorm.cli.progress import ProgressBar
    from fib_rmsnorm.machine.capabilities import is_interpreted
    from fib_rmsnorm.reports.live.sweep import figures_table
    from fib_rmsnorm.reports.text.console import stderr, stdout
    from fib_rmsnorm.tuning.figures import collect_figures

    batch = max(options.batch_sizes) if is_interpreted(tunable.solution, device) else results.batches[-1]
    with ProgressBar(doing="inspecting the compiled code"):
        figures = collect_figures(tunable, tunable.combinations(options.chosen), batch, device, config)
    if as_json:
        rows = [row.model_dump(mode="json") for row in figures]
        stdout().print(dumps({"definition": tunable.definition.name, "figures": rows}))
        return
    if not is_interpreted(tunable.solution, device):
        stdout().print(f"\n{tunable.definition.name}: median latency (* the fastest at a batch size)")
        stdout().print(results.table())
    if figures:
        stdout().print(f"\nCompiled code at {results.name_batch(batch)}, for {figures[0].arch}")
        stdout().print(figures_table(figures, results))
    if not is_interpreted(tunable.solution, device) and (results.failures or results.noisy):
        stderr().print(f"{results.failures} failed, {results.noisy} noisy of {results.passes + results.failures}")


def _write(registry: Registry, tunables: Sequence[Tunable], traces: Mapping[str, Sequence[Trace]]) -> None:
    from fib_rmsnorm.reports.text.console import stderr
    from fib_rmsnorm.tuning.choosing import write_table

    path = write_table(registry, tunables, traces)
    told = ", ".join(name for name, each in traces.items() if each)
    evaluations = [trace.evaluation for each in traces.values() for trace in each if trace.evaluation]
    models = " and ".join(sorted({each.environment.hardware for each in evaluations}))
    stderr().print(f"Wrote {path} (choices for {told} on {models}); its Solutions are packed again")
    if stale := ", ".join(name for name, each in traces.items() if not each):
        stderr().print(f"No choices for {stale}: its timings come from other sources or another device; tune it too")
