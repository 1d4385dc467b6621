"""What verdicts and Traces say of a version of a kernel."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from fib_rmsnorm.schema import Check, EvaluationStatus, Trace, Workload, list_cases
from fib_rmsnorm.sessions.version import Rival, Version, VersionTiming, WorkloadVerdict


def describe_verdict(check: Check, title: str) -> WorkloadVerdict:
    """What the judge says of a version on a Workload with this title."""
    cases = len(list_cases(check.correctness))
    return WorkloadVerdict(axes=check.workload.axes, title=title, status=check.status, cases=cases, log=check.log)


def add_timing(
    version: Version,
    workload: Workload,
    title: str,
    traces: Mapping[str, Trace],
    name: str,
    rivals: tuple[str | None, str | None],
) -> Version:
    """A copy of a version with its times on a Workload, by the Traces of those that were timed in turn, by name.

    `name` is the version's, `rivals` are those of the version before and of the baseline, None where there is none. If
    a timed call was wrong, or the worker ended, that is the verdict on the Workload.
    """
    own = traces.get(name)
    performance = own.evaluation.performance if own and own.evaluation else None
    if performance is None:
        verdicts = [verdict for verdict in version.verdicts if verdict.title != title]
        failure = describe_verdict(Check.of(own), title) if own else _lost(workload, title)
        return version.model_copy(update={"verdicts": [*verdicts, failure]})
    mine = None if performance.suspect else performance.latency_ms
    before, baseline = map(partial(_describe_rival, traces=traces, mine_ms=mine), rivals)
    timing = VersionTiming(
        axes=workload.axes,
        title=title,
        latency_ms=performance.latency_ms,
        latency_low_ms=performance.latency_low_ms,
        latency_high_ms=performance.latency_high_ms,
        percent_of_copy=performance.percent_of_copy,
        suspect=performance.suspect,
        before=before,
        baseline=baseline,
    )
    return version.model_copy(update={"timings": [*version.timings, timing]})


def _lost(workload: Workload, title: str) -> WorkloadVerdict:
    log = "it was right before, and failed when it was judged again"
    return WorkloadVerdict(axes=workload.axes, title=title, status=EvaluationStatus.RUNTIME_ERROR, cases=0, log=log)


def _describe_rival(name: str | None, traces: Mapping[str, Trace], mine_ms: float | None) -> Rival | None:
    if name is None:
        return None
    trace = traces.get(name)
    performance = trace.evaluation.performance if trace and trace.evaluation else None
    if performance is None:
        return Rival(solution=name, latency_ms=None, ratio=None, suspect=[])
    ratio = performance.latency_ms / mine_ms if mine_ms and not performance.suspect else None
    return Rival(solution=name, latency_ms=performance.latency_ms, ratio=ratio, suspect=performance.suspect)
