"""Old Traces beside new ones: what became faster, what slower, and what cannot be told."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from fib_rmsnorm.analysis.difference import Drift, estimate_drift, find_difference, imbalance, share_confidence
from fib_rmsnorm.analysis.sections import clock_clusters
from fib_rmsnorm.analysis.trace_record import Record
from fib_rmsnorm.errors import InputError
from fib_rmsnorm.student_t import Estimate

Verdict = Literal["slower", "faster", "no different", "suspect", "now fails"]
Key = tuple[str, str, str]
"""Definition, Workload and Solution."""


@dataclass(frozen=True)
class Comparison:
    """A Solution on a Workload, old and new. The runs of each side are of the newest content of that name."""

    old: tuple[Record, ...]
    new: tuple[Record, ...]
    ratio: Estimate | None
    """New latency over old; None if the new one failed."""
    verdict: Verdict

    @property
    def record(self) -> Record:
        """The newest of the new."""
        return self.new[-1]

    @property
    def resolution(self) -> float | None:
        """The least relative difference that could be told from none."""
        return self.ratio.high / self.ratio.value - 1 if self.ratio else None

    @property
    def is_of_one_session(self) -> bool:
        """Whether what sessions add to latencies is no part of the difference."""
        return imbalance(self.old, self.new) == 0


@dataclass(frozen=True)
class Comparisons:
    """All that could be compared, how sure, and what could not."""

    comparisons: tuple[Comparison, ...]
    drift: Drift
    confidence: float
    """Of each interval; all of them hold together at 95%."""
    missing: int
    """How many timings of the old are not among the new, or only under other conditions."""
    notes: tuple[str, ...]

    def regressions(self, max_slowdown: float) -> list[Comparison]:
        """Those that now fail, and those that are slower, beyond doubt, and by more than `max_slowdown`."""
        return [
            each
            for each in self.comparisons
            if each.verdict == "now fails"
            or (each.verdict == "slower" and each.ratio is not None and each.ratio.value - 1 > max_slowdown)
        ]


ASPECTS = ("device", "timer", "clock", "cache")
"""What must agree for two numbers to compare."""
MISSING = "missing"
"""What else may be allowed: that NEW has less than OLD."""


def compare(old: Iterable[Record], new: Iterable[Record], allow: Collection[str] = ()) -> Comparisons:
    """Compare every Solution and Workload that both sides have under the same conditions.

    Raises InputError if nothing can be compared: nothing in common, or only under conditions that differ in more
    than `allow` lists.
    """
    old_runs, new_runs = _by_key(old), _by_key(new)
    shared = [key for key in old_runs if key in new_runs]
    if not shared:
        raise InputError("OLD and NEW have no Solution and Workload in common")
    aspects = _aspects([record for runs in (old_runs, new_runs) for group in runs.values() for record in group])
    pairs: list[tuple[list[Record], list[Record]]] = []
    refused: dict[str, int] = {}
    missing = len(old_runs.keys() - new_runs.keys())
    for key in shared:
        pair, differing = _match(old_runs[key], new_runs[key], aspects, allow)
        if pair:
            pairs.append(pair)
        else:
            refused[differing] = refused.get(differing, 0) + 1
            missing += any(record.is_native for record in old_runs[key])
    if not pairs:
        raise InputError(f"OLD and NEW do not compare: {'; '.join(refused)}")
    drift = estimate_drift(side for pair in pairs for side in pair if all(run.is_trusted for run in side))
    confidence = share_confidence(sum(_can_compare(*pair) for pair in pairs))
    return Comparisons(
        tuple(_judge(*pair, drift, confidence) for pair in pairs),
        drift,
        confidence,
        missing,
        tuple(_notes(old_runs, new_runs, refused)),
    )


def _by_key(records: Iterable[Record]) -> dict[Key, list[Record]]:
    """The runs of the newest content of each Solution on each Workload, the oldest first."""
    groups: dict[Key, list[Record]] = {}
    for record in sorted(records, key=lambda record: record.timestamp):
        groups.setdefault((record.definition, record.workload, record.solution), []).append(record)
    return {
        key: [run for run in runs if run.solution_sha256 == runs[-1].solution_sha256] for key, runs in groups.items()
    }


def _aspects(records: Sequence[Record]) -> dict[str, Callable[[Record], object]]:
    """How to see each aspect of a record's conditions; the name is what a refusal says."""
    clusters = clock_clusters(records)
    return {
        "device": lambda record: record.hardware,
        "timer": lambda record: record.timer or "a timer not recorded",
        "clock": clusters.text,
        "cache": lambda record: {True: "cold L2", False: "warm L2", None: "an L2 not recorded"}[record.cold_l2],
    }


def _match(
    old: list[Record], new: list[Record], aspects: dict[str, Callable[[Record], object]], allow: Collection[str]
) -> tuple[tuple[list[Record], list[Record]] | None, str]:
    """The runs of both sides under the newest conditions that they share; else what differs, in words."""
    failed = [record for record in new[-1:] if not record.passed]
    old = [record for record in old if record.is_native]
    if failed and old:
        return (old, failed), ""
    new = [record for record in new if record.is_native]
    if not old or not new:
        where = "either" if not old and not new else "OLD" if new else "NEW"
        return None, f"no latency in {where} (failed, or interpreted)"
    wanted = [see for name, see in aspects.items() if name not in allow]

    def conditions(record: Record) -> tuple[object, ...]:
        return tuple(see(record) for see in wanted)

    for latest in reversed(new):
        matching = [record for record in old if conditions(record) == conditions(latest)]
        if matching:
            return (matching, [record for record in new if conditions(record) == conditions(latest)]), ""
    before, after = old[-1], new[-1]
    differing = [
        f"{name} (OLD {see(before)}, NEW {see(after)})"
        for name, see in aspects.items()
        if name not in allow and see(before) != see(after)
    ]
    names = ",".join(part.split(" ")[0] for part in differing)
    return None, f"they differ in {', '.join(differing)}; to compare all the same: --allow {names}"


def _can_compare(old: Sequence[Record], new: Sequence[Record]) -> bool:
    return all(run.is_trusted for run in (*old, *new))


def _judge(old: Sequence[Record], new: Sequence[Record], drift: Drift, confidence: float) -> Comparison:
    if not new[-1].passed:
        return Comparison(tuple(old), tuple(new), None, "now fails")
    ratio = find_difference(old, new, drift, confidence)
    verdict: Verdict = "no different"
    if not _can_compare(old, new):
        verdict = "suspect"
    elif ratio.low > 1:
        verdict = "slower"
    elif ratio.high < 1:
        verdict = "faster"
    return Comparison(tuple(old), tuple(new), ratio, verdict)


def _notes(old: dict[Key, list[Record]], new: dict[Key, list[Record]], refused: dict[str, int]) -> Iterable[str]:
    for reason, number in refused.items():
        yield f"{number} not compared: {reason}"
    for name, missing in (("OLD", new.keys() - old.keys()), ("NEW", old.keys() - new.keys())):
        if missing:
            yield f"{len(missing)} not compared: not in {name}"
