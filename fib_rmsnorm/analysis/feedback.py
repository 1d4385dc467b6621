"""The JSON for a loop that writes kernels: the same of `try`, of its options and of the server; several are ranked."""

import json
import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from statistics import geometric_mean

from pydantic import BaseModel, ConfigDict, Field

from fib_rmsnorm.analysis.difference import Estimate, find_speedup, relate
from fib_rmsnorm.schema import REFERENCE, Check, EvaluationStatus, Trace, list_cases
from fib_rmsnorm.sessions.version import Version

MOST_BYTES = 1000
"""The most that the feedback on a wrong kernel takes, without what `--verbose` adds."""
_NAME_BYTES, _SENTENCE_BYTES, _HINT_BYTES = 80, 240, 240
_THRESHOLDS = (0, 1, 2)


class Speed(BaseModel):
    """How fast a kernel is on one Workload."""

    workload: str
    latency_ms: float
    speedup: float | None = Field(default=None, description="Times as fast as the Definition's reference.")
    percent_of_copy: float | None = Field(default=None, description="Speed in percent of a copy's of the same bytes.")
    noisy: bool = Field(default=False, description="Whether the number is less sure than its interval says.")


class Feedback(BaseModel):
    """The verdict on a kernel: whether it is correct, what is wrong with it and where, and how fast it is."""

    model_config = ConfigDict(extra="forbid")

    id: str | None = Field(default=None, description="By which a server finds the request.")
    kernel: str
    definition: str | None = None
    hardware: str | None = None
    version: int | None = Field(default=None, description="The number of the version, where each save is one.")
    status: str = Field(
        description="PASSED; COMPILE_ERROR: it cannot be read or built; RUNTIME_ERROR, TIMEOUT, INCORRECT_NUMERICAL,"
        " INCORRECT_SHAPE, INCORRECT_DTYPE; SKIPPED: the device cannot run it; ABANDONED: it was"
        " cancelled before it was judged."
    )
    mistake: str | None = Field(default=None, description="What is wrong, in one sentence.")
    hint: str | None = Field(default=None, description="What to do about it.")
    is_cheat: bool = Field(
        default=False, description="Whether the mistake is what only a cheat does, such as replacing the timer."
    )
    file: str | None = Field(default=None, description="Its file to which a compiler's or Python's message points.")
    line: int | None = None
    case: str | None = Field(default=None, description="The Workload, and the judged case, in which it failed first.")
    correct: int = Field(default=0, description="The number of Workloads on which it is correct.")
    workloads: int = Field(default=0, description="The number of Workloads to judge it on.")
    batch_invariant: str | None = Field(
        default=None,
        description="Of a correct kernel: yes, or the first row that has other bits in a batch of another size.",
    )
    far_rows: str | None = Field(
        default=None,
        description="Of a correct kernel, if tried: yes if rows beyond 2^31 elements are right, else how they fail.",
    )
    empty_batch: str | None = Field(
        default=None, description="Of a correct kernel: yes if it takes an empty batch too, else how it fails."
    )
    speedup: float | None = Field(default=None, description="Times as fast as the reference, as a geometric mean.")
    interval: tuple[float, float] | None = Field(default=None, description="The speedup's 95% interval.")
    speeds: list[Speed] = []
    rivals: dict[str, float] = Field(
        default={}, description="Times as fast as other Solutions, and as the version before."
    )
    note: str | None = Field(default=None, description="What was left out, and why.")
    log: str | None = Field(default=None, description="The beginning of what else the judge, compiler or kernel said.")
    records: list[Trace | Check] = Field(default=[], description="With verbose: everything that was judged and timed.")

    def to_json(self) -> str:
        """One line, without what is not known."""
        return self.model_dump_json(exclude_defaults=True)


def make_feedback(
    version: Version, *, request: str | None = None, number: int | None = None, is_whole: bool = False
) -> Feedback:
    """The feedback on a version. `is_whole` adds the whole log, however long, and the records."""
    failure = next(iter(version.failures), None)
    found = Feedback(
        id=request,
        kernel=_cut(version.kernel, _NAME_BYTES),
        definition=version.definition or None,
        hardware=version.hardware or None,
        version=number,
        status=version.status,
        correct=len(version.checks) - len(version.failures),
        workloads=len(version.workloads),
        is_cheat=version.is_cheat,
        note=_cut(version.note, _SENTENCE_BYTES) or None,
        records=version.records if is_whole else [],
    )
    if version.passed:
        found.batch_invariant = version.batch_invariance
        if version.far_rows is not None:
            found.far_rows = _cut(version.far_rows, _SENTENCE_BYTES) or "yes"
        if version.empty_batch is not None:
            found.empty_batch = _cut(version.empty_batch, _SENTENCE_BYTES) or "yes"
        if any(check.judged_by == REFERENCE for check in version.checks.values()):
            found.note = "; ".join(filter(None, (found.note, "judged by the reference alone, without hard inputs")))
        _add_speed(found, version)
        return found
    log = version.refused or version.skipped or (failure.log.strip() if failure else "")
    lines = list(dict.fromkeys(line for line in log.splitlines() if line.strip()))
    mistake, *rest = lines or [""]
    hint = version.hint
    if failure is not None:
        case = _find_failed_case(failure)
        title = version.titles[failure.workload.uuid]
        found.case = _cut(", ".join(filter(None, (title, case))), _NAME_BYTES)
        if case and mistake.startswith(f"{case}: "):
            mistake = mistake.removeprefix(f"{case}: ")
        elif case:  # a mistake that the judge knows, with what to do about it
            mistake, _, hint = mistake.rpartition(": ")
        elif failure.status is EvaluationStatus.TIMEOUT and (left := len(version.workloads) - len(version.checks)):
            hint = f"stopped there, {left} of {len(version.workloads)} workloads not tried"
    files = [source.path for source in version.solution.sources] if version.solution else [version.kernel]
    found.file, found.line = _find_place(lines, files)
    found.mistake, found.hint = _cut(mistake, _SENTENCE_BYTES) or None, _cut(hint, _HINT_BYTES) or None
    whole = "\n".join(rest)
    if not is_whole:
        whole = _cut(whole, MOST_BYTES - len(found.to_json().encode()) - len(',"log":""'))
    found.log = whole or None
    return found


def _find_failed_case(check: Check) -> str | None:
    """The first judged case in which a kernel was wrong; None if no output was."""
    cases = [case.case for case in list_cases(check.correctness)]
    # A fault begins with the name of its case; named mistakes stand above the faults.
    return next((name for line in check.log.splitlines() for name in cases if line.startswith(f"{name}: ")), None)


def _find_place(lines: Sequence[str], files: Sequence[str]) -> tuple[str | None, int | None]:
    """The first line of a kernel's own file that a message names."""
    names = "|".join(re.escape(name) for name in sorted(files, key=len, reverse=True))
    pattern = re.compile(rf"(?:^|[\s\"'(/])({names})(?::|\(|\", line )(\d+)")
    found = next(filter(None, map(pattern.search, lines)), None)
    return (found[1], int(found[2])) if found else (None, None)


def relate_rivals(version: Version) -> dict[str, list[Estimate]]:
    """How many times as fast a version is as each Solution that was timed in turn with it, by its name or `before`.

    One for each Workload on which both were timed; a Solution without any is left out.
    """
    found: dict[str, list[Estimate]] = {}
    for own in version.timings:
        for rival in version.find_rivals(own.workload.uuid):
            name = "before" if rival.solution == version.before else rival.solution or ""
            if ratio := relate(own.performance, rival.performance):
                found.setdefault(name, []).append(ratio)
    return found


def _add_speed(found: Feedback, version: Version) -> None:
    timed = [(version.titles[trace.workload.uuid], trace.performance) for trace in version.timings if trace.performance]
    speedups = [find_speedup(performance) for _, performance in timed]
    found.speeds = [
        Speed(
            workload=title,
            latency_ms=performance.latency_ms,
            speedup=_round(speedup.value) if speedup else None,
            percent_of_copy=_round(performance.percent_of_copy),
            noisy=bool(performance.noisy),
        )
        for (title, performance), speedup in zip(timed, speedups, strict=True)
    ]
    found.speedup = _round(_mean([performance.speedup_factor for _, performance in timed]))
    low = _round(_mean([speedup.low if speedup else None for speedup in speedups]))
    high = _round(_mean([speedup.high if speedup else None for speedup in speedups]))
    found.interval = (low, high) if low and high else None
    for name, ratios in relate_rivals(version).items():
        mean = _round(_mean([ratio.value for ratio in ratios]))
        if mean and len(ratios) == len(timed):
            found.rivals[name] = mean


def _mean(factors: Sequence[float | None]) -> float | None:
    """The geometric mean; None if a factor is missing."""
    return geometric_mean(filter(None, factors)) if factors and all(factors) else None


def _round(number: float | None) -> float | None:
    return None if number is None else float(f"{number:.4g}")


def _cut(text: str, most: int) -> str:
    """The beginning of a text that takes at most so many bytes in JSON."""
    text = text.strip()
    ends = [*accumulate(len(json.dumps(character, ensure_ascii=False).encode()) - 2 for character in text)]
    if not ends or ends[-1] <= most:
        return text
    number = bisect_right(ends, most - len("…".encode()))
    return f"{text[:number]}…" if number else ""


class SideBySide(BaseModel):
    """Kernels: those that were timed by their speedup, the other correct ones, and the wrong ones."""

    kernels: list[Feedback]
    fast_p: dict[str, float]
    """KernelBench's measure: the share of those judged that are correct and over p times as fast as the reference."""

    @property
    def judged(self) -> list[Feedback]:
        """The kernels that the device can run."""
        return [each for each in self.kernels if each.status != "SKIPPED"]

    def is_tied(self, kernel: Feedback) -> bool:
        """Whether a kernel may be as fast as the first: neither interval is above the other."""
        mine, first = kernel.interval, self.kernels[0].interval
        return kernel is not self.kernels[0] and bool(mine and first and mine[1] >= first[0])


def rank_kernels(found: Sequence[Feedback], *, is_timed: bool) -> SideBySide:
    """Rank kernels, and count the fast ones; those that are correct alone if nothing was timed.

    Behind those whose speedup has an interval come those without, of which nobody knows how sure it is.
    """
    ranked = sorted(
        found,
        key=lambda each: (each.status != "PASSED", each.status == "SKIPPED", not each.interval, -(each.speedup or 0)),
    )
    side_by_side = SideBySide(kernels=ranked, fast_p={})
    judged = side_by_side.judged
    for least in _THRESHOLDS if is_timed else _THRESHOLDS[:1]:
        fast = [each for each in judged if each.status == "PASSED" and (not least or (each.speedup or 0) > least)]
        side_by_side.fast_p[str(least)] = len(fast) / max(1, len(judged))
    return side_by_side
