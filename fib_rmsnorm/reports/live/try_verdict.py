"""The verdict on a draft: whether it is correct, and its speed relative to its rivals."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from fib_rmsnorm.reports.live.evaluations import axes_text, suspicions
from fib_rmsnorm.reports.text.units import format_ratio
from fib_rmsnorm.schema import EvaluationStatus, Trace


def passed(traces: Sequence[Trace]) -> bool:
    """Whether there are evaluations and all of them passed."""
    return bool(traces) and all(
        trace.evaluation is not None and trace.evaluation.status is EvaluationStatus.PASSED for trace in traces
    )


def describe_failures(traces: Sequence[Trace]) -> str:
    """The logs of the failed evaluations, each distinct one once, under the workload that met it first."""
    logs: dict[str, str] = {}
    for trace in traces:
        evaluation = trace.evaluation
        if evaluation is not None and evaluation.status is not EvaluationStatus.PASSED:
            logs.setdefault(evaluation.log.strip(), f"{axes_text(trace)}: {evaluation.status.value}")
    return "\n\n".join(f"{heading}\n{log}" for log, heading in logs.items())


def verdict(name: str, drafts: Sequence[Trace], rivals: Sequence[Trace]) -> Text:
    """One paragraph: PASSED or FAILED, and the range of its speed against each rival."""
    good = sum(passed([trace]) for trace in drafts)
    if good < len(drafts) or not drafts:
        return Text(f"{name} FAILED: correct on {good} of {len(drafts)} workloads", style="bold red")
    text = Text.assemble((f"{name} PASSED", "bold green"))  # and only that
    text.append(f": correct on all {len(drafts)} workloads, with hard inputs and an awkward size for each")
    for rival in dict.fromkeys(trace.solution for trace in rivals):
        theirs = [trace for trace in rivals if trace.solution == rival]
        if ratios := _ratios(drafts, theirs):
            low, high = format_ratio(min(ratios)), format_ratio(max(ratios))
            text.append(f"\n  {low if low == high else f'{low} to {high}'} the speed of {rival}")
            if len(ratios) < len(drafts):
                text.append(f" on {len(ratios)} of {len(drafts)} workloads; the other numbers are SUSPECT or missing")
        elif any(map(suspicions, (*drafts, *theirs))):
            text.append(f"\n  not compared with {rival}: the numbers are SUSPECT", style="yellow")
    for trace in (*drafts, *rivals):
        for reason in suspicions(trace):
            text.append(f"\n  SUSPECT: {trace.solution} at {axes_text(trace)}: {reason}", style="yellow")
    return text


def _ratios(drafts: Sequence[Trace], rivals: Sequence[Trace]) -> list[float]:
    """The rival's latency over the draft's, for each Workload with two trusted ones; above 1 the draft is faster."""
    latencies = {trace.workload.uuid: _latency_ms(trace) for trace in rivals}
    ratios = []
    for trace in drafts:
        mine, theirs = _latency_ms(trace), latencies.get(trace.workload.uuid)
        if mine and theirs:
            ratios.append(theirs / mine)
    return ratios


def _latency_ms(trace: Trace) -> float | None:
    performance = trace.evaluation.performance if trace.evaluation else None
    return None if performance is None or performance.interpreted or performance.suspect else performance.latency_ms
