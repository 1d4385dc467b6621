"""Whole registries: what was merged into one, and what is wrong with one."""

from collections import Counter
from collections.abc import Iterator, Mapping

from rich.text import Text

from fib_rmsnorm.registry.exchange import Merger
from fib_rmsnorm.registry.validation.records import Validation
from fib_rmsnorm.reports.text.units import count

_STYLES = {"error": "bold red", "warning": "yellow", "note": "cyan"}
_NOUNS = {
    "definition": "Definition",
    "solution": "Solution",
    "workload": "Workload",
    "trace": "Trace",
    "file": "file of tensors",
}


def counts_text(counts: Mapping[str, int]) -> str:
    """`1 Definition, 7 Solutions, 8 Workloads, 48 Traces`."""
    return ", ".join(count(number, _NOUNS[kind.removesuffix("s")]) for kind, number in counts.items())


def describe_merge(merger: Merger) -> Iterator[Text | str]:
    """A line for each conflict: what differs, where, and in which fields; then the outcome."""
    for each in merger.conflicts:
        told = f"{_NOUNS[each.kind]} {each.name} differs between {each.ours} and {each.theirs}"
        yield Text.assemble(("conflict: ", "bold red"), f"{told} in: {', '.join(each.differs)}")
    if merger.conflicts:
        yield f"{count(len(merger.conflicts), 'conflict')}, nothing written; rename or remove one of the two"
        return
    added, same = (
        counts_text({kind: number for kind in _NOUNS if (number := found[kind])})
        for found in (merger.added, merger.same)
    )
    yield f"Added to {merger.ours.root}: {added or 'nothing'}{f'; already there: {same}' if same else ''}"


def describe_validation(found: Validation) -> Iterator[Text]:
    """A line for each finding, `path:line: error: message`, which editors can jump to; then the verdict."""
    for each in found.findings:
        place = each.path if each.line is None else f"{each.path}:{each.line}"
        message = " ".join(each.message.split())
        yield Text.assemble(f"{place}: ", (f"{each.level}:", _STYLES[each.level]), f" {message}")
    levels = Counter(sorted(finding.level for finding in found.findings))
    told = "; ".join(filter(None, (counts_text(found.counts), ", ".join(count(levels[each], each) for each in levels))))
    verdict = ("Valid", "green") if found.is_valid else ("Not valid", "bold red")
    yield Text.assemble(verdict, f": {told}")
