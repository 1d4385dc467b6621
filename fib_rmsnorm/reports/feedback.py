"""The JSON for a loop that writes kernels: the same of `try`, of its options and of the server."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

from fib_rmsnorm.analysis.difference import find_speedup
from fib_rmsnorm.schema import Check, EvaluationStatus, Trace

if TYPE_CHECKING:
    from fib_rmsnorm.sessions.version import Rival, Version, VersionTiming

MOST_BYTES = 1000
"""The most that the feedback on a wrong kernel takes, without what `--verbose` adds."""
_NAME_BYTES, _SENTENCE_BYTES, _HINT_BYTES = 80, 240, 240


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
        " INCORRECT_SHAPE, INCORRECT_DTYPE; ABANDONED: it was cancelled before it was judged."
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
    version: Version,
    *,
    request: str | None = None,
    number: int | None = None,
    is_whole: bool = False,
    records: Iterable[Trace | Check] = (),
) -> Feedback:
    """The feedback on a version. `is_whole` adds the whole log, however long."""
    failure = next(iter(version.failures), None)
    found = Feedback(
        id=request,
        kernel=_cut(version.kernel, _NAME_BYTES),
        definition=version.definition or None,
        hardware=version.hardware or None,
        version=number,
        status=version.status,
        correct=len(version.verdicts) - len(version.failures),
        workloads=len(version.titles),
        is_cheat=version.is_cheat,
        note=_cut(version.note, _SENTENCE_BYTES) or None,
        records=list(records),
    )
    if version.passed:
        found.batch_invariant = version.batch_invariance
        _add_speed(found, version.timings)
        return found
    log = version.refused or (failure.log.strip() if failure else "")
    lines = list(dict.fromkeys(line for line in log.splitlines() if line.strip()))
    mistake, *rest = lines or [""]
    hint = version.hint
    if failure is not None:
        case = failure.failed_case
        found.case = _cut(", ".join(filter(None, (failure.title, case))), _NAME_BYTES)
        if case and mistake.startswith(f"{case}: "):
            mistake = mistake.removeprefix(f"{case}: ")
        elif case:  # a mistake that the judge knows, with what to do about it
            mistake, _, hint = mistake.rpartition(": ")
        elif failure.status is EvaluationStatus.TIMEOUT and (left := len(version.titles) - len(version.verdicts)):
            hint = f"stopped there, {left} of {len(version.titles)} workloads not tried"
    found.file, found.line = _find_place(lines, version.files or [version.kernel])
    found.mistake, found.hint = _cut(mistake, _SENTENCE_BYTES) or None, _cut(hint, _HINT_BYTES) or None
    whole = "\n".join(rest)
    room = MOST_BYTES - len(found.to_json().encode()) - len(',"log":""')
    found.log = (whole if is_whole else _cut(whole, room)) or None
    return found


def _find_place(lines: Sequence[str], files: Sequence[str]) -> tuple[str | None, int | None]:
    """The first line of a kernel's own file that a message names."""
    names = "|".join(re.escape(name) for name in sorted(files, key=len, reverse=True))
    pattern = re.compile(rf"(?:^|[\s\"'(/])({names})(?::|\(|\", line )(\d+)")
    found = next(filter(None, map(pattern.search, lines)), None)
    return (found[1], int(found[2])) if found else (None, None)


def _add_speed(found: Feedback, timings: Sequence[VersionTiming]) -> None:
    speedups = [find_speedup(timing.performance) for timing in timings]
    for timing, speedup in zip(timings, speedups, strict=True):
        performance = timing.performance
        found.speeds.append(
            Speed(
                workload=timing.title,
                latency_ms=performance.latency_ms,
                speedup=_round(speedup.value) if speedup else None,
                percent_of_copy=_round(performance.percent_of_copy),
                noisy=bool(performance.noisy),
            )
        )
    factors = [timing.performance.speedup_factor for timing in timings]
    found.speedup = _round(_mean(factors))
    known = [speedup for speedup in speedups if speedup]
    if known and len(known) == len(timings):
        ends = [_mean([speedup.low for speedup in known]), _mean([speedup.high for speedup in known])]
        low, high = (end and float(f"{end:.4g}") for end in ends)
        found.interval = (low, high) if low and high else None
    rivals: dict[str, list[Rival]] = {}
    for timing in timings:
        for rival in filter(None, (timing.before, *timing.rivals)):
            rivals.setdefault("before" if rival is timing.before else rival.solution, []).append(rival)
    ratios = {name: _round(_mean([rival.ratio for rival in some])) for name, some in rivals.items()}
    found.rivals = {name: ratio for name, ratio in ratios.items() if ratio}


def _mean(factors: Sequence[float | None]) -> float | None:
    """The geometric mean; None if a factor is missing."""
    known = [math.log(factor) for factor in factors if factor]
    return math.exp(sum(known) / len(known)) if known and len(known) == len(factors) else None


def _round(number: float | None) -> float | None:
    return None if number is None else float(f"{number:.4g}")


def _cut(text: str, most: int) -> str:
    """The beginning of a text that takes at most so many bytes in JSON."""
    text = text.strip()
    sizes = [len(json.dumps(character, ensure_ascii=False).encode()) - 2 for character in text]
    if sum(sizes) <= most:
        return text
    taken = 0
    for number, size in enumerate(sizes):
        taken += size
        if taken > most - len("…".encode()):
            return f"{text[:number]}…" if number else ""
    return text
