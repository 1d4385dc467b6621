"""The verdict on a draft: whether it is correct, and its speed relative to its rivals and to a copy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich.text import Text

from fib_rmsnorm.reports.live.evaluations import first_line, suspicions
from fib_rmsnorm.reports.text.units import count, format_percent, format_ratio, format_share
from fib_rmsnorm.schema import REFERENCE, Check, EvaluationStatus, Performance, Trace

_LEAST_LOAD = 0.02
"""A smaller share of the cores is not called a disturbance."""


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
    yield reason
    rests: dict[str, list[Check]] = {}
    for check in checks:
        rests.setdefault(check.log.strip().partition("\n")[2], []).append(check)
    for rest, some in rests.items():
        if rest:
            yield from [f"at {_name_workloads(some, titles)}:", rest] if len(rests) > 1 else [rest]


def _name_workloads(checks: Iterable[Check], titles: Mapping[str, str]) -> str:
    # Each as one word, or a comma would stand between two Workloads and within one.
    return ", ".join(titles[check.workload.uuid].replace(" ", "") for check in checks)


def describe_speed(drafts: Sequence[Trace], rivals: Sequence[Trace], titles: Mapping[str, str]) -> Text:
    """The range of the draft's speed over all Workloads against each rival, and every doubt about a time.

    `titles` are those of the Workloads, by uuid.
    """
    lines: list[Text] = []
    for rival in dict.fromkeys(trace.solution for trace in rivals):
        theirs = [trace for trace in rivals if trace.solution == rival]
        if ratios := list(_ratios(drafts, theirs)):
            low, high = format_ratio(min(ratios)), format_ratio(max(ratios))
            line = f"{low if low == high else f'{low} to {high}'} the speed of {rival}"
            if len(ratios) < len(drafts):
                line += f" on {len(ratios)} of {len(drafts)} workloads; the other numbers are SUSPECT or missing"
            lines.append(Text(line))
        elif any(map(suspicions, (*drafts, *theirs))):
            lines.append(Text(f"not compared with {rival}: the numbers are SUSPECT", style="yellow"))
    lines += [
        Text(f"SUSPECT: {trace.solution} at {titles[trace.workload.uuid]}: {'; '.join(reasons)}", style="yellow")
        for trace in (*drafts, *rivals)
        if (reasons := suspicions(trace))
    ]
    return Text("\n").join(lines)


def _ratios(drafts: Sequence[Trace], rivals: Sequence[Trace]) -> Iterator[float]:
    """The rival's latency over the draft's, for each Workload with two trusted ones; above 1 the draft is faster."""
    latencies = {trace.workload.uuid: _latency_ms(trace) for trace in rivals}
    for trace in drafts:
        mine, theirs = _latency_ms(trace), latencies.get(trace.workload.uuid)
        if mine and theirs:
            yield theirs / mine


def _latency_ms(trace: Trace) -> float | None:
    trusted = _trusted(trace)
    return trusted.latency_ms if trusted else None


def _trusted(trace: Trace) -> Performance | None:
    performance = trace.evaluation.performance if trace.evaluation else None
    return None if performance is None or performance.interpreted or performance.suspect else performance


def conclude(
    titles: Mapping[str, str], checks: Sequence[Check], drafts: Sequence[Trace], rivals: Sequence[Trace]
) -> Text:
    """One line: right or wrong, by which Definition and on what, how fast, how sure that is, and what disturbed it.

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
    found = [f"{'each ' * (len(checks) > 1)}with {' and '.join(what)}"] if (what := _with(counts, len(checks))) else []
    found += [f"{what} for {number}" for what, number in counts.items() if 0 < number < len(checks)]
    found += [f"no {what.removeprefix('an ')}" for what, number in counts.items() if not number]
    return ", ".join([total, *found])


def _with(counts: Mapping[str, int], number: int) -> list[str]:
    return [what for what, found in counts.items() if found == number]


def _speed(drafts: Sequence[Trace], rivals: Sequence[Trace], titles: Mapping[str, str]) -> str:
    """The draft's speed on the largest Workload on which its time is trusted."""
    performances = [trace.evaluation.performance for trace in drafts if trace.evaluation]
    if any(found and found.interpreted for found in performances):
        return "; interpreted, so not timed"
    trusted = [(trace, found) for trace in drafts if (found := _trusted(trace))]
    if not trusted:
        largest = max(drafts, key=_size)
        return f"; no time to trust at any size: {suspicions(largest)[0]}"
    trace, mine = max(trusted, key=lambda each: _size(each[0]))
    beside = [rival for rival in rivals if rival.workload.uuid == trace.workload.uuid]
    compared = {rival.solution: found for rival in beside if (found := _trusted(rival))}
    parts = [
        f"{format_ratio(found.latency_ms / mine.latency_ms)} the speed of {who}" for who, found in compared.items()
    ]
    if mine.percent_of_copy is not None:
        parts.append(f"{format_percent(mine.percent_of_copy)} of the copy's speed")
    if widths := list(filter(None, map(_half_width, (mine, *compared.values())))):
        parts.append(f"±{format_share(max(widths))}")
    return f"; at {titles[trace.workload.uuid]}: {', '.join(parts)}{_disturbance(mine)}"


def _size(trace: Trace) -> int:
    performance = trace.evaluation.performance if trace.evaluation else None
    return (performance.bytes_moved if performance else None) or 0


def _half_width(performance: Performance) -> float | None:
    """Half the 95% interval of a latency, over the latency; the median extends an interval that it lies outside."""
    low, high, latency = performance.latency_low_ms, performance.latency_high_ms, performance.latency_ms
    return None if low is None or high is None else (max(high, latency) - min(low, latency)) / 2 / latency


def _disturbance(performance: Performance) -> str:
    share = performance.clocks.other_share if performance.clocks else None
    return f"; disturbed: other processes took {share:.0%} of the cores" if share and share >= _LEAST_LOAD else ""
