"""How the calls of a kernel scatter, and how far its answers lie from the exact one."""

from __future__ import annotations

from collections.abc import Sequence

from fib_rmsnorm.analysis.findings import SectionFindings
from fib_rmsnorm.analysis.ulp_histogram import UlpHistogram
from fib_rmsnorm.reports.charts.axis import find_axis
from fib_rmsnorm.reports.charts.chart import Chart, Point, Series


def spread_chart(findings: SectionFindings) -> Chart | None:
    """From 5% to 95% of the calls, relative to the median: how steady a kernel is."""
    axis = find_axis(findings)
    titles = [each.title for each in findings.results.workloads]
    if axis is not None:
        titles = [title.removeprefix(f"{axis.label}=") for title in titles]
    groups: dict[str, list[Point]] = {}
    for index, each in enumerate(findings.results.workloads):
        for result in each.results:
            record = result.record
            if record.is_native and record.latency_p5_ms and record.latency_p95_ms:
                low, high = (
                    _ratio(bound, record.latency_ms) for bound in (record.latency_p5_ms, record.latency_p95_ms)
                )
                note = f"{each.title}: {record.samples or 'unknown'} calls"
                groups.setdefault(result.label, []).append(Point(index, 1.0, low, high, note))
    if not groups:
        return None
    return Chart(
        "spread",
        "Distribution of calls: 5% to 95%, relative to the median",
        axis.label if axis else "",
        "latency / median",
        tuple(Series(label, tuple(points), "spread") for label, points in sorted(groups.items())),
        x_scale="linear",
        y_scale="linear",
        categories=tuple(titles),
    )


def ulp_chart(ulps: Sequence[UlpHistogram]) -> Chart | None:
    """How many elements lie how far from the exact answer, over all cases that a Solution was judged on."""
    if not ulps:
        return None
    buckets = list(dict.fromkeys(bucket for each in ulps for bucket in each.counts))
    while len(buckets) > 1 and not any(each.counts.get(buckets[-1]) for each in ulps):
        buckets.pop()
    series = [
        Series(
            each.name,
            tuple(
                Point(
                    index, each.counts.get(bucket, 0) / each.elements, note=f"{each.counts.get(bucket, 0):,} elements"
                )
                for index, bucket in enumerate(buckets)
                if each.counts.get(bucket)
            ),
            "bars",
        )
        for each in ulps
    ]
    return Chart(
        "ulp",
        "Distance from the exact answer, over all Workloads and hard cases",
        "units in the last place",
        "share of elements",
        tuple(series),
        x_scale="linear",
        categories=tuple(buckets),
    )


def _ratio(latency_ms: float | None, other_ms: float | None) -> float:
    return (latency_ms or 0.0) / other_ms if other_ms else 0.0
