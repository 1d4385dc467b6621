"""What an export wrote, a merge added, or a validation found, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from rich.text import Text

from fib_rmsnorm.registry.catalogue import Catalogue
from fib_rmsnorm.registry.exchange import Conflict, Merger
from fib_rmsnorm.registry.validation import Finding, Validation
from fib_rmsnorm.reports.text.data import pick
from fib_rmsnorm.reports.text.units import count

_STYLES = {"error": "bold red", "warning": "yellow", "note": "cyan"}
_NOUNS = {
    "definition": "Definition",
    "solution": "Solution",
    "workload": "Workload",
    "trace": "Trace",
    "file": "file of tensors",
}


def count_records(catalogue: Catalogue) -> dict[str, int]:
    """How many records of each kind there are."""
    records = pick(catalogue, "definitions", "solutions", "workloads", "traces")
    return {kind: len(mine) for kind, mine in records.items()}


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


def merge_line(merger: Merger) -> Text:
    """The outcome in one line."""
    if merger.conflicts:
        return Text(f"{count(len(merger.conflicts), 'conflict')}, nothing written; rename or remove one of the two")
    added = {kind: number for kind in _NOUNS if (number := merger.added[kind])}
    same = {kind: number for kind in _NOUNS if (number := merger.same[kind])}
    already = f"; already there: {counts_text(same)}" if same else ""
    return Text(f"Added to {merger.ours.root}: {counts_text(added) or 'nothing'}{already}")


def finding_line(finding: Finding) -> Text:
    """One finding in one line, `path:line: error: message`, which editors can jump to."""
    place = finding.path if finding.line is None else f"{finding.path}:{finding.line}"
    message = " ".join(finding.message.split())
    return Text.assemble(f"{place}: ", (f"{finding.level}:", _STYLES[finding.level]), f" {message}")


def verdict_line(validation: Validation) -> Text:
    """What was checked, and whether it is sound."""
    levels = Counter(sorted(finding.level for finding in validation.findings))
    found = ", ".join(count(levels[level], level) for level in levels)
    verdict = ("Valid", "green") if validation.is_valid else ("Not valid", "bold red")
    return Text.assemble(verdict, f": {counts_text(validation.counts)}" + (f"; {found}" if found else ""))
