"""The verdict on a draft: whether it is right, and how fast beside its rivals; and a line for each version of one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from rich.text import Text

from fib_rmsnorm.analysis.difference import Estimate, recorded, relate
from fib_rmsnorm.reports.live.evaluations import describe_load, first_line, marks
from fib_rmsnorm.reports.text.control_characters import marked
from fib_rmsnorm.reports.text.units import (
    count,
    format_apart,
    format_either_side,
    format_latency,
    format_percent,
    format_ratio,
)
from fib_rmsnorm.schema import REFERENCE, Check, EvaluationStatus, Trace

if TYPE_CHECKING:
    from fib_rmsnorm.sessions.version import Rival, Version, VersionTiming

_MOST_LINES = 10
"""The most lines of what a kernel printed that are shown."""


def describe_failures(checks: Sequence[Check], titles: Mapping[str, str]) -> str:
    """The logs of the failed evaluations: a first line that several share is told once, with their workloads.

    `titles` are those of the Workloads, by uuid.
    """
    alike: dict[tuple[EvaluationStatus, str], list[Check]] = {}
    for check in checks:
        if not check.passed:
            alike.setdefault((check.status, first_line(check.log)), []).append(check)
    return "\n\n".join("\n".join(_describe_alike(*which, some, titles)) for which, some in alike.items())


def _describe_alike(
    status: EvaluationStatus, reason: str, checks: Sequence[Check], titles: Mapping[str, str]
) -> Iterator[str]:
    yield f"{_name_workloads(checks, titles)}: {status.value}"
    yield marked(reason)
    rests: dict[str, list[Check]] = {}
    for check in checks:
        rests.setdefault(check.log.strip().partition("\n")[2], []).append(check)
    for rest, some in rests.items():
        if rest:
            yield from [f"at {_name_workloads(some, titles)}:", marked(rest)] if len(rests) > 1 else [marked(rest)]


def _name_workloads(checks: Iterable[Check], titles: Mapping[str, str]) -> str:
    # Each as one word, or a comma would stand between two Workloads and within one.
    return ", ".join(titles[check.workload.uuid].replace(" ", "") for check in checks)


def describe_speed(drafts: Sequence[Trace], rivals: Sequence[Trace], titles: Mapping[str, str]) -> Text:
    """The range of the draft's speed over all Workloads against each rival, and why a time is noisy.

    `titles` are those of the Workloads, by uuid.
    """
    lines: list[Text] = []
    for rival in dict.fromkeys(trace.solution for trace in rivals):
        theirs = [trace for trace in rivals if trace.solution == rival]
        if ratios := list(_ratios(drafts, theirs)):
            low, high = format_ratio(min(ratios)), format_ratio(max(ratios))
            line = f"{low if low == high else f'{low} to {high}'} the speed of {rival}"
            if len(ratios) < len(drafts):
                line += f" on {len(ratios)} of {len(drafts)} workloads; the others failed"
            lines.append(Text(line))
    lines += [
        Text(f"noisy: {trace.solution} at {titles[trace.workload.uuid]}: {'; '.join(reasons)}", style="yellow")
        for trace in (*drafts, *rivals)
        if (reasons := marks(trace))
    ]
    return Text("\n").join(lines)


def _ratios(drafts: Sequence[Trace], rivals: Sequence[Trace]) -> Iterator[float]:
    """The rival's latency over the draft's, for each Workload with both; above 1 the draft is faster."""
    theirs = {trace.workload.uuid: trace for trace in rivals}
    for trace in drafts:
        rival = theirs.get(trace.workload.uuid)
        if rival and (ratio := relate(trace.performance, rival.performance)):
            yield ratio.value


def conclude(
    titles: Mapping[str, str], checks: Sequence[Check], drafts: Sequence[Trace], rivals: Sequence[Trace]
) -> Text:
    """One line: right or wrong, by which Definition and on what, how fast, how sure that is, and the machine's load.

    `titles` are those of the planned Workloads, by uuid; `checks` are the verdicts on the draft; `drafts` and `rivals`
    are empty if none was timed.
    """
    name, definition = checks[-1].solution, checks[-1].definition
    if len(checks) < len(titles) or not all(check.passed for check in checks):
        return Text(f"{name} FAILED as {definition}: {_failure(titles, checks)}", style="bold red")
    text = Text.assemble((f"{name} PASSED", "bold green"))  # and only that
    text.append(f" as {definition} ({describe_judged(checks)})")
    text.append(_speed(drafts, rivals, titles) if drafts else "; not timed")
    return text


def _failure(titles: Mapping[str, str], checks: Sequence[Check]) -> str:
    last, planned = checks[-1], len(titles)
    if last.status is EvaluationStatus.TIMEOUT:
        left = planned - len(checks)
        stopped = f"; stopped there, {count(left, 'workload')} not tried" if left else ""
        return f"TIMEOUT at {titles[last.workload.uuid]}{stopped}"
    good = sum(check.passed for check in checks)
    statuses = dict.fromkeys(check.status.value for check in checks if not check.passed)
    return f"correct on {good} of {planned} workloads ({', '.join(statuses)})"


def describe_judged(checks: Sequence[Check]) -> str:
    """On what the draft was judged: `3 workloads, each with hard inputs and an awkward size`."""
    total = count(len(checks), "workload")
    counts = {
        "hard inputs": sum(check.count_cases("hard") > 0 for check in checks),
        "an awkward size": sum(check.count_cases("awkward") > 0 for check in checks),
    }
    if not any(counts.values()):
        alone = ": judged by the reference alone" if checks[0].judged_by == REFERENCE else ""
        return f"{total}, without hard inputs or awkward sizes{alone}"
    everywhere = " and ".join(what for what, number in counts.items() if number == len(checks))
    found = [f"{'each ' * (len(checks) > 1)}with {everywhere}"] if everywhere else []
    found += [f"{what} for {number}" for what, number in counts.items() if 0 < number < len(checks)]
    found += [f"no {what.removeprefix('an ')}" for what, number in counts.items() if not number]
    return ", ".join([total, *found])


def _speed(drafts: Sequence[Trace], rivals: Sequence[Trace], titles: Mapping[str, str]) -> str:
    """The draft's speed on the largest Workload."""
    if any(trace.performance and trace.performance.interpreted for trace in drafts):
        return "; interpreted, so not timed"
    timed = [(trace, found) for trace in drafts if (found := trace.performance)]
    trace, mine = max(timed, key=lambda each: each[1].bytes_moved or 0)
    beside = [rival for rival in rivals if rival.workload.uuid == trace.workload.uuid]
    compared = ((rival.solution, relate(trace.performance, rival.performance)) for rival in beside)
    parts = [f"{_describe_speed(ratio)} the speed of {who}" for who, ratio in compared if ratio]
    if mine.percent_of_copy is not None:
        parts.append(f"{format_percent(mine.percent_of_copy)} of the copy's speed")
    load = describe_load([trace])
    return f"; at {titles[trace.workload.uuid]}: {', '.join(parts)}{f'; {load}' if load else ''}"


def _describe_speed(ratio: Estimate) -> str:
    """`2.1x`, or `1.02x (a tie: up to 6% apart)`."""
    tie = f" (a tie: up to {format_apart(ratio.apart)} apart)" if ratio.verdict == "tie" else ""
    return f"{format_ratio(ratio.value)}{tie}"


def describe_prints(checks: Iterable[Check], titles: Mapping[str, str]) -> str:
    """What the kernel printed on the first Workload on which it passed and printed; empty if there is none.

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
    left = [f"[... {count(more, 'line')} more with --json]"] if more > 0 else []
    elsewhere = f", and at {count(len(others), 'more workload')} (with --json)" if others else ""
    return "\n".join(
        [f"printed at {titles[first.workload.uuid]}{elsewhere}:", marked("\n".join(lines[:_MOST_LINES])), *left]
    )


_LOG_LINES = 12


def version_line(version: Version) -> Text:
    """One version in one line: right or wrong, by which Definition, and how fast beside its rivals."""
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
    """What one line has no room for."""
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
    cells["before"] = _range_of_ratios(before) if before else ""
    for name in dict.fromkeys(rival.solution for rival in rivals):
        cells[name] = _range_of_ratios([rival for rival in rivals if rival.solution == name])
    shares = [share for timing in version.timings if (share := timing.performance.percent_of_copy)]
    cells["of copy"] = _range(map(format_percent, (min(shares), max(shares)))) if shares else ""
    return cells


def _range_of_ratios(rivals: Sequence[Rival]) -> str:
    ratios = [rival.ratio for rival in rivals if rival.ratio is not None]
    return _range(map(format_ratio, (min(ratios), max(ratios)))) if ratios else ""


def _range(ends: Iterable[str]) -> str:
    return " to ".join(dict.fromkeys(ends))


def _latency(timing: VersionTiming) -> str:
    found = timing.performance
    interval = recorded(found.latency_ms, found.latency_low_ms, found.latency_high_ms)
    return f"{'*' if found.noisy else ''}{format_latency(found.latency_ms)} {format_either_side(interval)}".rstrip()
