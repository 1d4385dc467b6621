"""`fib-rmsnorm compare`."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from shlex import join
from typing import TYPE_CHECKING, Annotated

import typer

from fib_rmsnorm.cli import options
from fib_rmsnorm.cli.printing import note, print_report
from fib_rmsnorm.errors import InputError

if TYPE_CHECKING:
    from fib_rmsnorm.analysis.comparing.comparison import Comparisons
    from fib_rmsnorm.analysis.trace_record import TraceRecord


def command(
    old: Annotated[
        str,
        typer.Argument(metavar="OLD", help="Trace file or folder; with --measure: a Solution or kernel, as of try."),
    ],
    new: Annotated[str, typer.Argument(metavar="NEW", help="Same kind as OLD; compared against it.")],
    max_slowdown: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Gate: exit with 1 only for slowdowns above this (0.05 is 5%), with 2 if NEW lacks results or no"
            " interval is narrow enough to judge any; ties that may hide such a slowdown are named.",
        ),
    ] = None,
    allow: Annotated[
        str | None,
        typer.Option(
            metavar="WHAT,...",
            callback=options.refuse_empty,
            help="What to accept. Conditions that differ: device, timer, clock, cache, definition. For a gate: missing"
            " (NEW lacks results).",
        ),
    ] = None,
    measure: Annotated[
        bool,
        typer.Option(
            "--measure",
            help="Measure two Solutions now, in interleaved trials; of two Definitions, one after the other.",
        ),
    ] = False,
    rounds: Annotated[
        int, typer.Option(min=1, help="With --measure: number of rounds, each in new processes; none after a failure.")
    ] = 3,
    call: Annotated[
        list[str] | None,
        typer.Option(
            metavar="EXPRESSION",
            help="With --measure: what to call in a kernel's file, as of try; twice if OLD and NEW differ.",
        ),
    ] = None,
    definition: Annotated[
        str | None,
        options.name_option(
            "--definition",
            "With --measure: Definition of two kernels' files; default: the one that they name, else the main one.",
        ),
    ] = None,
    batch_sizes: options.BatchSizes = None,
    device: options.DeviceName = "auto",
    definitions: options.DefinitionNames = None,
    solutions: options.SolutionNames = None,
    root: options.Root = None,
    json: options.Json = False,
) -> int:
    """Compare results: faster, slower or a tie. Exit code 1 if anything became slower or fails now."""
    from fib_rmsnorm.analysis.comparing.comparison import MISSING, compare
    from fib_rmsnorm.analysis.sections import ASPECTS
    from fib_rmsnorm.reports.comparison import comparisons_record, describe_comparisons

    allowed, known = options.split_names(allow), (*ASPECTS, MISSING)
    if unknown := set(allowed) - set(known):
        raise InputError(f"--allow: unknown {', '.join(sorted(unknown))}; choose from {', '.join(known)}")
    faults: list[str] = []
    computed: list[str] = []
    if measure:
        if definitions or solutions:
            raise InputError("--measure takes two Solutions as OLD and NEW: leave out --definitions and --solutions")
        if call and len(call) > 2:
            raise InputError("--call: give it once, or for OLD and for NEW")
        both = (call[0], call[-1]) if call else (None, None)
        sizes = options.split_sizes(batch_sizes)
        before, after, computed = _measure_in_turn(old, new, both, definition, root, sizes, device, rounds)
    else:
        if call or definition:
            raise InputError("--call and --definition are for --measure: add --measure; for Traces: --definitions")
        for side in (old, new):
            if side.endswith(options.KERNEL_SUFFIXES):
                raise InputError(f"{side} is a kernel, not a file of Traces; to time two kernels, add --measure")
            if not Path(side).exists():
                bench = join(["fib-rmsnorm", "bench", "--output", side])
                raise InputError(f"no such file or folder: {side}; write it by: {bench}; to time two, add --measure")
        sides = [
            options.read_traces([Path(side)], root, definitions, solutions, batch_sizes, all_versions=True)
            for side in (old, new)
        ]
        before, after = (side.records for side in sides)
        faults += (fault for side in sides for fault in side.faults)
    found = compare(before, after, allowed, in_turn=measure, max_slowdown=max_slowdown)
    found = replace(found, notes=(*found.notes, *computed))
    print_report(describe_comparisons, comparisons_record, found, is_json=json)
    if found.regressions:
        return 1
    if max_slowdown is not None:
        _require_judged(found, faults, accepts_missing=MISSING in allowed)
    return 0


def _measure_in_turn(
    old: str,
    new: str,
    calls: tuple[str | None, str | None],
    definition: str | None,
    root: Path | None,
    batch_sizes: tuple[int, ...],
    device: str,
    rounds: int,
) -> tuple[list[TraceRecord], list[TraceRecord], list[str]]:
    """Time OLD and NEW in turn, and print each evaluation on stderr.

    Returns the Traces of each, and of two Definitions also what each computes. `calls` says what to call in files,
    `definition` what they compute. Raises InputError for what cannot be measured here.
    """
    from fib_rmsnorm.cli.progress import ProgressBar

    with ProgressBar() as bar:  # shown before the imports, which take seconds
        from fib_rmsnorm.analysis.reading import record_of
        from fib_rmsnorm.evaluation.head_to_head import plan_head_to_head, run_head_to_head
        from fib_rmsnorm.evaluation.run_config import RunConfig
        from fib_rmsnorm.machine.devices import choose_devices
        from fib_rmsnorm.registry import Registry
        from fib_rmsnorm.reports.evaluations import LiveTable
        from fib_rmsnorm.reports.text.console import stderr

        registry = Registry.find_or_shipped(root)
        match = plan_head_to_head(registry, old, new, batch_sizes, choose_devices(device)[0], calls, definition)
        titles = match.plan.titles
        sides: tuple[list[TraceRecord], list[TraceRecord]] = ([], [])
        every_title = (title for each in titles.values() for title in each.values())
        table = LiveTable((match.old.name, match.new.name), every_title, stderr())
        bar.expect(rounds * match.plan.evaluations)
        bar.print(stderr(), table.header())
        with closing(run_head_to_head(match, RunConfig(dataset=registry.root), rounds)) as traces:
            for number, trace in enumerate(traces, start=1):
                bar.print(stderr(), table.line(trace, titles[trace.definition][trace.workload.uuid]))
                bar.advance("evaluating")
                if record := record_of(trace, number):
                    sides[trace.solution == match.new.name].append(record)
    note("")  # separates the measurements from the verdict
    described = {group.definition.name: group.definition.description for group in match.plan.groups}
    computed = [f"{name}: {text}" for name, text in described.items() if text] if len(described) > 1 else []
    return *sides, computed


def _require_judged(found: Comparisons, faults: list[str], *, accepts_missing: bool) -> None:
    """Raise InputError if results are missing, or if the gate could judge nothing: neither must look like a pass."""
    lacking = "a file could not be read completely" if faults else ""
    if found.missing and not faults:
        lacking = f"NEW lacks {found.missing} of OLD's results, or measured them differently"
    if lacking and not accepts_missing:
        raise InputError(f"the gate failed: {lacking}; to accept that, add --allow missing")
    if len(found.unjudged) == len(found.comparisons):
        raise InputError(
            "the gate judged nothing: every interval is wider than the limit; bench each side more often, or raise"
            " --max-slowdown"
        )
