"""`fib-rmsnorm compare`."""

from __future__ import annotations

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
    SolutionNames,
    refuse_empty,
    split_batch_sizes,
    split_names,
)
from fib_rmsnorm.cli.reading import read_traces
from fib_rmsnorm.errors import InputError

if TYPE_CHECKING:
    from fib_rmsnorm.analysis.comparing.comparison import Comparisons
    from fib_rmsnorm.analysis.comparing.gate import Unjudged
    from fib_rmsnorm.analysis.trace_record import TraceRecord
    from fib_rmsnorm.cli.progress import ProgressBar
    from fib_rmsnorm.evaluation.head_to_head import HeadToHead

_Sides = tuple["list[TraceRecord]", "list[TraceRecord]"]


def command(
    old: Annotated[
        str,
        typer.Argument(
            autocompletion=completion.solution,
            help="Trace file or folder; with --measure: a Solution or a kernel file.",
        ),
    ],
    new: Annotated[
        str, typer.Argument(autocompletion=completion.solution, help="Same kind as OLD; compared against it.")
    ],
    max_slowdown: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Gate: exit with 1 only for slowdowns above this (0.05 is 5%), with 2 if anything cannot be judged:"
            " SUSPECT, below the resolution, or missing in NEW. Even a SUSPECT number is judged if it is 6 times as"
            " slow and 95% of its calls took longer than 95% of the old ones.",
        ),
    ] = None,
    allow: Annotated[
        str | None,
        typer.Option(
            metavar="WHAT,...",
            callback=refuse_empty,
            help="What to accept. Conditions that differ: device, timer, clock, cache. For a gate: missing (NEW lacks"
            " results), suspect (SUSPECT numbers), unresolved (the limit is below what can be detected).",
        ),
    ] = None,
    measure: Annotated[
        bool, typer.Option("--measure", help="Measure two Solutions now, in interleaved trials.")
    ] = False,
    rounds: Annotated[int, typer.Option(min=1, help="With --measure: number of rounds, each in new processes.")] = 3,
    entry: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            callback=refuse_empty,
            help="With --measure: function to call in a kernel's file; OLD's,NEW's if they differ; default: run.",
        ),
    ] = None,
    batch_sizes: BatchSizes = None,
    device: DeviceName = "auto",
    definitions: DefinitionNames = None,
    solutions: SolutionNames = None,
    root: Root = None,
    json: Json = False,
) -> int:
    """Compare results: faster, slower or no different. Exit code 1 if anything became slower or fails now."""
    from fib_rmsnorm.analysis.comparing.comparison import compare
    from fib_rmsnorm.analysis.comparing.gate import SUSPECT, find_unjudged

    allowed = _split_allowed(allow)
    if measure:
        if definitions or solutions:
            raise InputError("--measure takes two Solutions as OLD and NEW: leave out --definitions and --solutions")
        faults: list[str] = []
        entries = _split_entries(entry)
        sides = _measure(old, new, entries, root, split_batch_sizes(batch_sizes), device, rounds)
    else:
        if entry:
            raise InputError("--entry chooses a kernel's function, which only --measure calls: add --measure")
        before, after = (
            read_traces([_find_traces(side)], root, definitions, solutions, batch_sizes) for side in (old, new)
        )
        sides = before.records, after.records
        faults = [*before.faults, *after.faults]
    found = compare(*sides, allowed)
    unjudged = [] if max_slowdown is None else find_unjudged(found, max_slowdown, allowed)
    _print(found, max_slowdown, unjudged, as_json=json)
    if found.regressions(max_slowdown or 0.0):
        return 1
    if max_slowdown is not None:
        _require_all(found, unjudged, faults, allowed)
    elif SUSPECT not in allowed and all(each.verdict == "suspect" for each in found.comparisons):
        raise InputError("nothing could be compared: every number is SUSPECT; to accept that, add --allow suspect")
    return 0


def _split_allowed(allow: str | None) -> tuple[str, ...]:
    from fib_rmsnorm.analysis.comparing.conditions import ASPECTS
    from fib_rmsnorm.analysis.comparing.gate import TOLERATED

    allowed, known = split_names(allow), (*ASPECTS, *TOLERATED)
    if unknown := set(allowed) - set(known):
        raise InputError(f"--allow: unknown {', '.join(sorted(unknown))}; choose from {', '.join(known)}")
    return allowed


def _split_entries(entry: str | None) -> tuple[str | None, str | None]:
    """The functions to call in OLD and NEW; one name serves both."""
    names = split_names(entry)
    if len(names) > 2:
        raise InputError(f"--entry {entry}: give one function, or those of OLD and NEW")
    return (names[0], names[-1]) if names else (None, None)


def _print(found: Comparisons, max_slowdown: float | None, unjudged: list[Unjudged], *, as_json: bool) -> None:
    from fib_rmsnorm.reports.comparison import comparisons_json, describe_comparisons
    from fib_rmsnorm.reports.text.console import echo, stdout
    from fib_rmsnorm.reports.text.document import print_parts

    if as_json:
        echo(comparisons_json(found, max_slowdown, unjudged), end="")
    else:
        print_parts(describe_comparisons(found, max_slowdown, unjudged), stdout())


def _find_traces(side: str) -> Path:
    """Return the path of OLD or NEW. Raises InputError that says how to compare two Solutions instead."""
    if not Path(side).exists():
        raise InputError(
            f"no such file or folder: {side}; to write it, run: fib-rmsnorm bench --output {side}"
            if Path(side).suffix in {".json", ".jsonl"}
            else f"no such file or folder: {side}; to measure two Solutions now, add --measure; to compare stored"
            " results, run: fib-rmsnorm report --solutions A,B --baseline A"
        )
    return Path(side)


def _require_all(found: Comparisons, unjudged: list[Unjudged], faults: list[str], allowed: tuple[str, ...]) -> None:
    """Raise InputError if there is something that the gate was asked about and could not judge: that is no pass."""
    from fib_rmsnorm.analysis.comparing.gate import MISSING

    lacking: list[str] = []
    if MISSING not in allowed:
        lacking += [f"NEW lacks {found.missing} of OLD's results, or measured them differently"] * bool(found.missing)
        lacking += ["a file could not be read completely"] * bool(faults)
    accept = [MISSING] * bool(lacking) + list(dict.fromkeys(each.kind for each in unjudged))
    if unjudged:
        lacking.append(f"{len(unjudged)} of {len(found.comparisons)} cannot be judged")  # why, the report has said
    if lacking:
        raise InputError(f"the gate failed: {', and '.join(lacking)}; to accept that, add --allow {','.join(accept)}")


def _measure(
    old: str,
    new: str,
    entries: tuple[str | None, str | None],
    root: Path | None,
    batch_sizes: tuple[int, ...],
    device: str,
    rounds: int,
) -> _Sides:
    from fib_rmsnorm.cli.progress import ProgressBar

    with ProgressBar() as bar:  # shown before the imports, which take seconds
        from fib_rmsnorm.evaluation.head_to_head import plan_head_to_head
        from fib_rmsnorm.machine.devices import choose_devices
        from fib_rmsnorm.registry import Registry

        registry = Registry.find_or_shipped(root)
        match = plan_head_to_head(registry, old, new, batch_sizes, choose_devices(device)[0], entries)
        return _run_trials(bar, match, registry.root, rounds)


def _run_trials(bar: ProgressBar, match: HeadToHead, root: Path, rounds: int) -> _Sides:
    from contextlib import closing

    from fib_rmsnorm.analysis.decoding import decode
    from fib_rmsnorm.evaluation.head_to_head import run_head_to_head
    from fib_rmsnorm.evaluation.run_config import RunConfig
    from fib_rmsnorm.reports.live.evaluations import folded_result
    from fib_rmsnorm.reports.text.console import stderr
    from fib_rmsnorm.schema import Settings

    width = max(len(match.old.name), len(match.new.name))
    sides: _Sides = ([], [])
    bar.expect(2 * rounds * len(match.workloads))
    with closing(run_head_to_head(match, RunConfig(Settings(), 120.0, root), rounds)) as traces:
        for number, trace in enumerate(traces, start=1):
            bar.print(stderr(), folded_result(trace, width))
            bar.advance("evaluating")
            record = decode(trace.model_dump_json().encode(), "measured now", number, None)
            if record is not None:
                # compare() pairs records by the Solution's name, so both sides get one name.
                record.solution = f"{match.old.name} -> {match.new.name}"
                sides[trace.solution == match.new.name].append(record)
    bar.print(stderr(), "")  # separates the measurements from the verdict
    return sides
