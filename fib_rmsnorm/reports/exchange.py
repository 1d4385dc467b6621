"""What an export wrote, or a merge added, in words."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from shlex import join

from rich.text import Text

from fib_rmsnorm.registry.catalogue import Catalogue
from fib_rmsnorm.registry.merge import Conflict, Merger
from fib_rmsnorm.registry.trace_file import Unknown
from fib_rmsnorm.reports.text.units import count

_NAMED = 5
_NOUNS = {
    "definition": "Definition",
    "solution": "Solution",
    "workload": "Workload",
    "trace": "Trace",
    "file": "file of tensors",
}


def count_records(catalogue: Catalogue) -> dict[str, int]:
    """How many records of each kind there are."""
    return {
        "definitions": len(catalogue.definitions),
        "solutions": len(catalogue.solutions),
        "workloads": len(catalogue.workloads),
        "traces": len(catalogue.traces),
    }


def counts_text(counts: Mapping[str, int]) -> str:
    """`1 Definition, 7 Solutions, 8 Workloads, 48 Traces`."""
    return ", ".join(count(number, _NOUNS[kind.removesuffix("s")]) for kind, number in counts.items())


def conflict_line(conflict: Conflict) -> Text:
    """One conflict: what differs, where, and in which fields."""
    differs = ", ".join(conflict.differs)
    return Text.assemble(
        ("conflict: ", "bold red"),
        f"{_NOUNS[conflict.kind]} {conflict.name} differs between {conflict.ours} and {conflict.theirs} in: {differs}",
    )


def unknown_line(unknown: Unknown) -> Text:
    """What Traces of a file name and no registry has, and what to do."""
    named, more = unknown.names[:_NAMED], len(unknown.names) - _NAMED
    names = f"{', '.join(named)}{f' and {more} more' if more > 0 else ''}"
    noun = f"{_NOUNS[unknown.kind]}{'s' * (len(unknown.names) > 1)}"
    named_by = f"named by {count(unknown.traces, 'Trace')}"
    return Text.assemble(("unknown: ", "bold red"), f"{noun} {names}, {named_by}: {unknown.remedy}")


def merge_line(merger: Merger, folders: Sequence[Path], into: Path | None) -> Text:
    """The outcome in one line; of a conflict, with the commands that resolve it."""
    if merger.conflicts and merger.keep is None:
        merge = ["fib-rmsnorm", "merge", *map(str, folders), *(["--into", str(into)] if into else [])]
        ours = join([*merge, "--keep", "ours"])
        theirs = join([*merge, "--keep", "theirs", *([] if into else ["--into", "merged"])])
        return Text(
            f"{count(len(merger.conflicts), 'conflict')}, nothing written; choose a side: {ours} or, into a new folder,"
            f" {theirs}"
        )
    added = {kind: number for kind in _NOUNS if (number := merger.added[kind])}
    same = {kind: number for kind in _NOUNS if (number := merger.same[kind])}
    told = counts_text(added) or "nothing"
    already = f"; already there: {counts_text(same)}" if same else ""
    kept = f"; kept {merger.keep} of {count(len(merger.conflicts), 'conflict')}" if merger.conflicts else ""
    where = f"Wrote to {into} all records of {merger.ours.root}, and" if into else f"Added to {merger.ours.root}:"
    return Text(f"{where} {told}{already}{kept}")


def merge_json(merger: Merger, into: Path | None, *, written: bool) -> str:
    """The same as JSON."""
    record = {
        "into": str(into or merger.ours.root),
        "written": written,
        "added": dict(merger.added),
        "same": dict(merger.same),
        "unknown": [asdict(each) for each in merger.unknown],
        "kept": merger.keep,
        "conflicts": [
            {**asdict(each), "ours": str(each.ours), "theirs": str(each.theirs)} for each in merger.conflicts
        ],
    }
    return json.dumps(record, indent=2)
