"""`fib-rmsnorm compare`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fib_rmsnorm.cli import completion
from fib_rmsnorm.cli.measuring import measure_in_turn
from fib_rmsnorm.cli.options import (
    BatchSizes,
    DefinitionNames,
    DeviceName,
    Json,
    Root,
    SolutionNames,
    refuse_empty,
    split_batch_sizes,
    split_names,
)
from fib_rmsnorm.cli.reading import Versions, read_traces
from fib_rmsnorm.errors import InputError

if TYPE_CHECKING:
    from fib_rmsnorm.analysis.comparing.comparison import Comparisons, SolutionComparison

Old = Annotated[
    str,
    typer.Argument(
        autocompletion=completion.solution,
        help="Trace file or folder; with --measure: a Solution or a kernel file.",
    ),
]
New = Annotated[str, typer.Argument(autocompletion=completion.solution, help="Same kind as OLD; compared against it.")]
MaxSlowdown = Annotated[
    float | None,
    typer.Option(
        min=0,
        help="Gate: exit with 1 only for slowdowns above this (0.05 is 5%), with 2 if NEW lacks results or no interval"
        " is narrow enough to judge any; ties that may hide such a slowdown are named.",
    ),
]
Allow = Annotated[
    str | None,
    typer.Option(
        metavar="WHAT,...",
        callback=refuse_empty,
        help="What to accept. Conditions that differ: device, timer, clock, cache, definition. For a gate: missing"
        " (NEW lacks results).",
    ),
]
Measure = Annotated[bool, typer.Option("--measure", help="Measure two Solutions now, in interleaved trials.")]
Rounds = Annotated[
    int, typer.Option(min=1, help="With --measure: number of rounds, each in new processes; none after a failure.")
]
EntryNames = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        callback=refuse_empty,
        help="With --measure: function to call in a kernel's file; OLD's,NEW's if they differ; default: run.",
    ),
]
ComputedDefinition = Annotated[
    str | None,
    typer.Option(
        "--definition",
        autocompletion=completion.definition,
        help="With --measure: Definition of two kernels' files; default: the one that they name, else the main one.",
    ),
]


def command(
    old: Old,
    new: New,
    max_slowdown: MaxSlowdown = None,
    allow: Allow = None,
    measure: Measure = False,
    rounds: Rounds = 3,
    entry: EntryNames = None,
    definition: ComputedDefinition = None,
    batch_sizes: BatchSizes = None,
    device: DeviceName = "auto",
    definitions: DefinitionNames = None,
    solutions: SolutionNames = None,
    root: Root = None,
    json: Json = False,
) -> int:
    """Compare results: faster, slower or a tie. Exit code 1 if anything became slower or fails now."""
    from fib_rmsnorm.analysis.comparing.comparison import compare

    allowed = _split_allowed(allow)
    faults: list[str] = []
    if measure:
        if definitions or solutions:
            raise InputError("--measure takes two Solutions as OLD and NEW: leave out --definitions and --solutions")
        before, after = measure_in_turn(
            old, new, _split_entries(entry), definition, root, split_batch_sizes(batch_sizes), device, rounds
        )
    else:
        if entry:
            raise InputError("--entry chooses a kernel's function, which only --measure calls: add --measure")
        if definition:
            raise InputError("--definition says what two kernels' files compute, for --measure; Traces: --definitions")
        sides = []
        for side, other in ((old, new), (new, old)):
            path = _find_traces(side, other)
            sides.append(read_traces([path], root, definitions, solutions, batch_sizes, versions=Versions.ALL))
        before, after = (side.records for side in sides)
        faults += (fault for side in sides for fault in side.faults)
    found = compare(before, after, allowed, in_turn=measure)
    unjudged = [] if max_slowdown is None else found.unjudged(max_slowdown)
    _print(found, max_slowdown, unjudged, as_json=json)
    if found.regressions(max_slowdown or 0.0):
        return 1
    if max_slowdown is not None:
        _require_judged(found, unjudged, faults, allowed)
    return 0


def _split_allowed(allow: str | None) -> tuple[str, ...]:
    from fib_rmsnorm.analysis.comparing.comparison import ASPECTS, MISSING

    allowed, known = split_names(allow), (*ASPECTS, MISSING)
    if unknown := set(allowed) - set(known):
        raise InputError(f"--allow: unknown {', '.join(sorted(unknown))}; choose from {', '.join(known)}")
    return allowed


def _split_entries(entry: str | None) -> tuple[str | None, str | None]:
    """The functions to call in OLD and NEW; one name serves both."""
    names = split_names(entry)
    if len(names) > 2:
        raise InputError(f"--entry {entry}: give one function, or those of OLD and NEW")
    return (names[0], names[-1]) if names else (None, None)


def _print(
    found: Comparisons, max_slowdown: float | None, unjudged: list[SolutionComparison], *, as_json: bool
) -> None:
    from fib_rmsnorm.reports.comparison import comparisons_record, describe_comparisons
    from fib_rmsnorm.reports.text.console import echo, stdout
    from fib_rmsnorm.reports.text.data import json_text
    from fib_rmsnorm.reports.text.document import print_parts

    if as_json:
        echo(json_text(comparisons_record(found, max_slowdown, unjudged)), end="")
    else:
        print_parts(describe_comparisons(found, max_slowdown, unjudged), stdout())


def _find_traces(side: str, other: str) -> Path:
    """Return the path of OLD or NEW. Raises InputError that says how to compare two Solutions instead."""
    if not Path(side).exists():
        raise InputError(
            f"no such file or folder: {side}; to write it, run: {_bench_as(other, side)}"
            if Path(side).suffix in {".json", ".jsonl"}
            else f"no such file or folder: {side}; to measure two Solutions now, add --measure; to compare stored"
            " results, run: fib-rmsnorm report --solutions A,B --baseline A"
        )
    return Path(side)


def _bench_as(other: str, output: str) -> str:
    """The command that benches what the other side holds, if it can be read, and writes it to `output`."""
    from fib_rmsnorm.analysis.loading import load_traces
    from fib_rmsnorm.registry.selection import bench_command

    records = load_traces([Path(other)], warn=lambda _: None).records if Path(other).exists() else []
    return bench_command({record.definition for record in records}, "--output", output)


def _require_judged(
    found: Comparisons, unjudged: list[SolutionComparison], faults: list[str], allowed: tuple[str, ...]
) -> None:
    """Raise InputError if results are missing, or if the gate could judge nothing: neither must look like a pass."""
    from fib_rmsnorm.analysis.comparing.comparison import MISSING

    lacking: list[str] = []
    if MISSING not in allowed:
        lacking += [f"NEW lacks {found.missing} of OLD's results, or measured them differently"] * bool(found.missing)
        lacking += ["a file could not be read completely"] * bool(faults)
    if lacking:
        raise InputError(f"the gate failed: {', and '.join(lacking)}; to accept that, add --allow {MISSING}")
    if len(unjudged) == len(found.comparisons):
        raise InputError(
            "the gate judged nothing: every interval is wider than the limit; bench each side more often, or raise"
            " --max-slowdown"
        )
