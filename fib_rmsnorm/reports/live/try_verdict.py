"""The verdict on a draft: whether it is correct, and its speed relative to its rivals and to a copy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from rich.text import Text

from fib_rmsnorm.analysis.comparing.difference import relate
from fib_rmsnorm.analysis.comparing.fastest import latency_of, performance_of
from fib_rmsnorm.analysis.estimate import Estimate
from fib_rmsnorm.reports.live.evaluations import describe_load, first_line, marks
from fib_rmsnorm.reports.text.control_characters import marked
from fib_rmsnorm.reports.text.units import count, format_apart, format_percent, format_ratio
from fib_rmsnorm.schema import REFERENCE, Check, EvaluationStatus, Trace

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
        if rival and (ratio := relate(latency_of(trace), latency_of(rival))):
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
    performances = [trace.evaluation.performance for trace in drafts if trace.evaluation]
    if any(found and found.interpreted for found in performances):
        return "; interpreted, so not timed"
    timed = [(trace, found) for trace in drafts if (found := performance_of(trace))]
    trace, mine = max(timed, key=lambda each: each[1].bytes_moved or 0)
    beside = [rival for rival in rivals if rival.workload.uuid == trace.workload.uuid]
    compared = ((rival.solution, relate(latency_of(trace), latency_of(rival))) for rival in beside)
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
