"""The verdict on a draft: whether it is correct, and how fast beside its rivals; and a line for each version of one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from rich.text import Text

from fib_rmsnorm.analysis.difference import recorded, relate
from fib_rmsnorm.reports.live.evaluations import describe_load, first_line
from fib_rmsnorm.reports.text.control_characters import marked
from fib_rmsnorm.reports.text.units import (
    count,
    format_apart,
    format_either_side,
    format_latency,
    format_percent,
    format_range,
    format_ratio,
)
from fib_rmsnorm.schema import REFERENCE, CaseKind, Check, EvaluationStatus, Trace

if TYPE_CHECKING:
    from fib_rmsnorm.sessions.version import Rival, Version, VersionTiming

_MOST_LINES = 5
"""The most lines that are shown of what a kernel printed, and of where its outputs are wrong."""


def describe_failures(checks: Sequence[Check], titles: Mapping[str, str]) -> str:
    """The logs of failed evaluations after their first lines, once for each first line.

    The first of these first lines is left to the verdict. `titles` are those of the Workloads, by uuid.
    """
    alike: dict[tuple[EvaluationStatus, str], list[Check]] = {}
    for check in checks:
        if not check.passed:
            alike.setdefault((check.status, first_line(check.log)), []).append(check)
    parts = []
    for number, ((status, reason), some) in enumerate(alike.items()):
        # Each as one word, or a comma would stand between two Workloads and within one.
        at = ", ".join(titles[check.workload.uuid].replace(" ", "") for check in some)
        lines = some[0].log.strip().splitlines()[1:]
        more = len(lines) - _MOST_LINES if status is EvaluationStatus.INCORRECT_NUMERICAL else 0
        shown = [marked("\n".join(lines[:_MOST_LINES] if more > 0 else lines))] if lines else []
        left = [f"[... {count(more, 'more line')} with --json --verbose]"] if more > 0 else []
        if number or shown:
            parts.append("\n".join([f"{at}: {reason if number else status.value}", *shown, *left]))
    return "\n\n".join(parts)


def conclude(
    titles: Mapping[str, str], checks: Sequence[Check], drafts: Sequence[Trace], rivals: Sequence[Trace]
) -> Text:
    """One line: correct or why not, by which Definition and on what, how fast, and the machine's load.

    `titles` are those of the planned Workloads, by uuid; `checks` are the verdicts on the draft; `drafts` and `rivals`
    are empty if none was timed.
    """
    name, definition = checks[-1].solution, checks[-1].definition
    failed, left = [check for check in checks if not check.passed], len(titles) - len(checks)
    if failed:
        where = f"{len(failed)} of {count(len(titles), 'workload')}{f' ({left} not tried)' if left else ''}"
        why = f"{failed[0].status.value}: {first_line(failed[0].log)}"
        return Text(f"{name} FAILED as {definition} on {where}: {why}", style="bold red")
    text = Text.assemble((f"{name} PASSED", "bold green"))  # and only that
    text.append(f" as {definition} ({describe_judged(checks)}); ")
    text.append("; ".join(_describe_speed(drafts, rivals)) if drafts else "not timed")
    varying = next((told for check in checks if (told := check.batch_invariance or "yes") != "yes"), None)
    return text.append(f"; batch-invariant: {varying}" if varying else "")


def describe_judged(checks: Sequence[Check]) -> str:
    """On what the draft was judged: `3 workloads, hard inputs and odd sizes included`."""
    kinds: dict[str, CaseKind] = {"hard inputs": "hard", "odd sizes": "awkward"}
    found = [words for words, kind in kinds.items() if any(check.count_cases(kind) for check in checks)]
    told = [count(len(checks), "workload"), *([f"{' and '.join(found)} included"] if found else [])]
    told += [f"no {words}" for words in kinds if words not in found]
    return ", ".join(told) + (", judged by the reference alone" if checks[0].judged_by == REFERENCE else "")


def _describe_speed(drafts: Sequence[Trace], rivals: Sequence[Trace]) -> Iterator[str]:
    """The speed relative to each rival and to the copy, over all Workloads, and the machine's load."""
    if any(trace.performance and trace.performance.interpreted for trace in drafts):
        yield "interpreted, so not timed"
        return
    for name in dict.fromkeys(trace.solution for trace in rivals):
        theirs = {trace.workload.uuid: trace.performance for trace in rivals if trace.solution == name}
        found = [relate(trace.performance, theirs.get(trace.workload.uuid)) for trace in drafts]
        if ratios := [ratio for ratio in found if ratio]:
            line = f"{format_range([ratio.value for ratio in ratios], format_ratio)} the speed of {name}"
            if all(ratio.verdict == "tie" for ratio in ratios):
                line += f" (a tie: up to {format_apart(max(ratio.apart for ratio in ratios))} apart)"
            yield line + (f" on {len(ratios)} of {len(drafts)} workloads" if len(ratios) < len(drafts) else "")
    if shares := [share for trace in drafts if (share := trace.performance and trace.performance.percent_of_copy)]:
        yield f"{format_range(shares, format_percent)} of a copy's speed"
    if load := describe_load(drafts):
        yield load


def describe_prints(checks: Iterable[Check], titles: Mapping[str, str]) -> str:
    """The kernel's output on the first Workload on which it passed and printed; empty if there is none.

    A call is repeated many times, so lines that repeat are told once, with their number. `titles` are those of the
    Workloads, by uuid.
    """
    talkative = [check for check in checks if check.passed and check.log.strip()]
    if not talkative:
        return ""
    first, *others = talkative
    repeated = [(line, len(list(same))) for line, same in groupby(first.log.strip("\n").splitlines())]
    lines = [line if times == 1 else f"{line}  ({times} times)" for line, times in repeated]
    more = len(lines) - _MOST_LINES
    left = [f"[... {count(more, 'more line')} with --json]"] if more > 0 else []
    elsewhere = f", and at {count(len(others), 'more workload')} (with --json)" if others else ""
    return "\n".join(
        [f"printed at {titles[first.workload.uuid]}{elsewhere}:", marked("\n".join(lines[:_MOST_LINES])), *left]
    )


_LOG_LINES = 12


def version_line(version: Version) -> Text:
    """One version in one line: correct or not, by which Definition, and how fast beside its rivals."""
    line = Text(f"#{version.number}  {version.kernel}  ")
    line.append(version.status, style="green" if version.passed else "bold red")
    line.append(f" as {version.definition}")
    if reason := _reason(version):
        return line.append(f"  {reason}")
    if version.passed:
        cases = sum(verdict.cases for verdict in version.verdicts)
        judged = f"{count(cases, 'case')} of {count(len(version.verdicts), 'workload')} judged"
        line.append(f"  {judged} in {version.verdict_s:.1f} s")
    parts = [f"{timing.title} {_latency(timing)}" for timing in version.timings]
    parts += [f"{cell} {name}" for name, cell in _comparisons(version).items() if cell]
    line.append("".join(f"  {part}" for part in parts))
    if version.note:
        line.append(f"  ({version.note})")
    return line


def version_details(version: Version) -> list[Text]:
    """The details for which one line has no room."""
    lines = []
    for verdict in version.failures[:1]:
        lines += [Text(marked(line)) for line in verdict.log.strip().splitlines()[1:_LOG_LINES]]
    lines += [
        Text(f"noisy at {timing.title}: {'; '.join(timing.performance.noisy)}", style="yellow")
        for timing in version.timings
        if timing.performance.noisy
    ]
    return lines


def _reason(version: Version) -> str:
    """Why a version failed, with the first Workload that shows it."""
    if version.refused:
        return version.refused
    failures = version.failures
    return f"{failures[0].title}: {first_line(failures[0].log)}" if failures else ""


def _comparisons(version: Version) -> dict[str, str]:
    """The speed relative to the version before, the baseline and the copy, over all Workloads that were timed."""
    if not version.timings:
        return {}
    cells: dict[str, str] = {}
    rivals = [rival for timing in version.timings for rival in timing.rivals]
    before = [timing.before for timing in version.timings if timing.before]
    cells["before"] = _range_of_ratios(before)
    for name in dict.fromkeys(rival.solution for rival in rivals):
        cells[name] = _range_of_ratios([rival for rival in rivals if rival.solution == name])
    shares = [share for timing in version.timings if (share := timing.performance.percent_of_copy)]
    cells["of copy"] = format_range(shares, format_percent) if shares else ""
    return cells


def _range_of_ratios(rivals: Sequence[Rival]) -> str:
    ratios = [rival.ratio for rival in rivals if rival.ratio is not None]
    return format_range(ratios, format_ratio) if ratios else ""


def _latency(timing: VersionTiming) -> str:
    found = timing.performance
    interval = recorded(found.latency_ms, found.latency_low_ms, found.latency_high_ms)
    return f"{'*' if found.noisy else ''}{format_latency(found.latency_ms)} {format_either_side(interval)}".rstrip()
