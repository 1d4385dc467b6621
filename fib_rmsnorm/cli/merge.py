"""`fib-rmsnorm merge`."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from fib_rmsnorm.cli.options import Json
from fib_rmsnorm.errors import InputError


class Kept(str, Enum):
    """Which of two conflicting records is kept."""

    OURS = "ours"
    THEIRS = "theirs"


def command(
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="A B...",
            help="A registry, and others to merge into it: registries, flashinfer-bench datasets, or files of Traces"
            " (.json or .jsonl, as fib-rmsnorm bench --output writes them).",
        ),
    ],
    into: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write the result to this empty or new folder; default: add to A."),
    ] = None,
    keep: Annotated[
        Kept | None,
        typer.Option(help="Which record to keep on a conflict: A's, or the later one (needs --into)."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Report, but write nothing.")] = False,
    json: Json = False,
) -> int:
    """Merge registries and files of Traces. On a conflict that --keep does not resolve, write nothing and exit with 1.

    Traces of a file must refer to Definitions, Workloads and Solutions that the registries hold.
    """
    if len(folders) < 2:
        raise InputError("merge needs a registry, and a registry or a file of Traces to merge into it")
    if keep is Kept.THEIRS and into is None:
        raise InputError("--keep theirs would replace records of A: name a new folder with --into")
    from fib_rmsnorm.cli.progress import ProgressBar

    with ProgressBar(doing="merging"):
        from fib_rmsnorm.registry import Registry
        from fib_rmsnorm.registry.files.locking import locked
        from fib_rmsnorm.registry.merge import Merger
        from fib_rmsnorm.reports.exchange import conflict_line, merge_line, merge_record
        from fib_rmsnorm.reports.text.console import echo, stdout
        from fib_rmsnorm.reports.text.data import json_text

        first, *others = folders
        ours = Registry.find(first)
        for other in others:
            if not other.exists():  # may be meant as a file: no advice to create a registry there
                raise InputError(f"no such file or folder: {other}")
        registries = [Registry.find(folder) for folder in others if not folder.is_file()]
        grows = into is None and not dry_run
        with locked(
            reading=[each.root for each in (registries if grows else [ours, *registries])],
            writing=[ours.root] if grows else [],
        ):
            merger = Merger(ours, keep.value if keep else None)
            for registry in registries:
                merger.add(registry)
            merger.add_files(each for each in others if each.is_file())  # last: their Traces may be of any registry
            is_resolved = keep is not None or not merger.conflicts
            if is_resolved and not dry_run:
                merger.write(into)
    if json:
        echo(json_text(merge_record(merger, into, written=is_resolved and not dry_run)), end="")
    else:
        for conflict in merger.conflicts:
            stdout().print(conflict_line(conflict))
        stdout().print(merge_line(merger, folders, into, written=is_resolved and not dry_run))
    return 0 if is_resolved else 1
