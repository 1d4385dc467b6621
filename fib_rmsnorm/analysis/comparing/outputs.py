"""How outputs of Solutions differ from those of a peer on the same inputs, as `bench --against` recorded it."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatch

import msgspec
from pydantic import TypeAdapter

from fib_rmsnorm.analysis.reading import read_items
from fib_rmsnorm.analysis.trace_record import TraceRecord
from fib_rmsnorm.errors import InputError
from fib_rmsnorm.registry.selection import bench_command
from fib_rmsnorm.schema import AGAINST, CaseKind, Definition, Difference, JudgedCase, Peer, UlpStatistics

_CASES = TypeAdapter(list[JudgedCase])
_PEER = TypeAdapter(Peer)


@dataclass(frozen=True)
class OutputDifference:
    """An output of a Solution on a Workload, beside the peer's, over all cases of a kind."""

    record: TraceRecord
    peer: Peer
    kind: CaseKind
    output: str
    difference: Difference
    definition: Definition | None
    """None if no registry has it."""

    @property
    def dtype(self) -> str | None:
        """The output's."""
        outputs = self.definition.outputs if self.definition else {}
        return outputs[self.output].dtype.value if self.output in outputs else None


def find_output_differences(
    records: Sequence[TraceRecord], glob: str, definitions: Mapping[str, Definition]
) -> list[OutputDifference]:
    """The comparisons with peers whose names match a glob; of equal evaluations, the newest.

    Raises InputError if there is none.
    """
    found: dict[tuple[str, ...], list[OutputDifference]] = {}
    peers: set[str] = set()
    for record, peer, cases in sorted(_read(records), key=lambda each: each[0].timestamp):
        peers.add(peer.solution)
        if fnmatch(peer.solution, glob):
            key = (record.hardware, record.definition, peer.solution, record.solution, record.workload)
            found[key] = list(_sum_up(record, peer, cases, definitions.get(record.definition)))
    if not found:
        there = f" (found: {', '.join(sorted(peers))})" if peers else ""
        bench = bench_command({record.definition for record in records}, "--against", glob)
        raise InputError(f"no Trace was compared with a Solution {glob!r}{there}; to compare outputs, run: {bench}")
    ordered = sorted(found, key=lambda key: (key[:4], tuple(found[key][0].record.axes.values())))
    return [each for key in ordered for each in found[key]]


def _read(records: Iterable[TraceRecord]) -> Iterator[tuple[TraceRecord, Peer, list[JudgedCase]]]:
    """The Traces that were compared with a peer; missing files, and what other tools write there, are skipped."""
    with suppress(InputError, msgspec.DecodeError, UnicodeDecodeError):
        for record, data in read_items(records):
            with suppress(ValueError, LookupError, TypeError):  # ValueError: also of a validation
                extra = json.loads(data)["evaluation"]["correctness"]["extra"]
                peer, cases = _PEER.validate_python(extra[AGAINST]), _CASES.validate_python(extra.get("cases", []))
                if any(case.against for case in cases):
                    yield record, peer, cases


def _sum_up(
    record: TraceRecord, peer: Peer, cases: Sequence[JudgedCase], definition: Definition | None
) -> Iterator[OutputDifference]:
    groups: dict[tuple[str, CaseKind], list[Difference]] = {}
    for case in cases:
        for output, difference in case.against.items():
            groups.setdefault((output, case.kind or "workload"), []).append(difference)
    outputs = list(dict.fromkeys(output for output, _ in groups))  # in the Definition's order
    for output, kind in sorted(groups, key=lambda key: outputs.index(key[0])):
        yield OutputDifference(record, peer, kind, output, add_up(groups[output, kind]), definition)


def add_up(differences: Sequence[Difference]) -> Difference:
    """Several of one output, as if their elements were of one case."""
    ulps = [each.ulp for each in differences if each.ulp]
    return Difference(
        max_absolute=largest(each.max_absolute for each in differences),
        max_relative=largest(each.max_relative for each in differences),
        elements=sum(each.elements for each in differences),
        equal=sum(each.equal for each in differences),
        ulp=add_up_ulps(ulps) if ulps else None,
    )


def find_largest(judged: Iterable[tuple[str, JudgedCase]]) -> dict[str, float | None]:
    """The largest difference of each Solution's outputs from the peer's, on the Workloads' own inputs, by its name."""
    found: dict[str, list[float | None]] = {}
    for solution, case in judged:
        if (case.kind or "workload") == "workload" and case.against:
            found.setdefault(solution, []).extend(each.max_absolute for each in case.against.values())
    return {name: largest(values) for name, values in sorted(found.items())}


def largest(values: Iterable[float | None]) -> float | None:
    """The largest value; None, which stands for infinity, if any is."""
    found = list(values)
    return None if None in found else max(value for value in found if value is not None)


def add_up_ulps(ulps: Sequence[UlpStatistics]) -> UlpStatistics:
    """Distances of several, as if their elements were of one; the mean is over those that histograms count."""
    histogram: Counter[str] = Counter()
    for ulp in ulps:
        histogram.update(ulp.histogram)
    counts = [sum(ulp.histogram.values()) for ulp in ulps]
    mean = sum(ulp.mean * number for ulp, number in zip(ulps, counts, strict=True)) / max(1, sum(counts))
    return UlpStatistics(max(ulp.maximum for ulp in ulps), mean, dict(histogram))
