"""Findings as charts, independent of how they are drawn: plots and the page draw the same ones."""

from __future__ import annotations

from collections.abc import Sequence

from fib_rmsnorm.analysis.findings import SectionFindings
from fib_rmsnorm.analysis.ulp_histogram import UlpHistogram
from fib_rmsnorm.reports.charts.chart import Chart, Point, Series, number_series
from fib_rmsnorm.reports.charts.distributions import spread_chart, ulp_chart
from fib_rmsnorm.reports.charts.models import roofline_chart, scaling_chart
from fib_rmsnorm.reports.charts.speed import bandwidth_chart, copy_chart, latency_chart

__all__ = ["Chart", "Point", "Series", "make_charts", "number_series"]


def make_charts(findings: SectionFindings, ulps: Sequence[UlpHistogram]) -> list[Chart]:
    """All charts of a section that have something to show."""
    charts = [
        copy_chart(findings),
        latency_chart(findings),
        bandwidth_chart(findings),
        scaling_chart(findings),
        roofline_chart(findings),
        spread_chart(findings),
        ulp_chart(ulps),
    ]
    return [chart for chart in charts if chart is not None]
