"""What the charts of reports say."""

from pathlib import Path

import pytest

from fib_rmsnorm import load
from fib_rmsnorm.analysis.loading import decode_traces
from fib_rmsnorm.analysis.results import find_results
from fib_rmsnorm.analysis.roofline import analyze_sections
from fib_rmsnorm.reports.charts import make_charts, number_series
from support.paths import PUBLISHED, REPOSITORY
from support.trace_json import trace


def charts(*sources: Path):
    found = decode_traces(list(sources), REPOSITORY).read_solutions()
    (findings,) = analyze_sections(find_results(found), found.definitions)
    return {chart.name: chart for chart in make_charts(findings)}


@pytest.fixture(scope="module")
def published():
    return charts(PUBLISHED)


def series(chart, name):
    return next(each for each in chart.series if each.name == name)


def test_latency_stands_beside_the_copy_and_the_peak(published):
    chart = published["latency"]
    copy, peak = series(chart, "a copy of the same bytes"), series(chart, "the bytes at the peak")
    kernel = series(chart, "rmsnorm_cuda_vec16_v1")
    assert [point.x for point in kernel.points] == [1, 8, 32, 128, 512, 4096, 16384, 65536]
    assert all(point.low <= point.y * 1.01 and point.high >= point.y * 0.99 for point in kernel.points)
    assert copy.points[-1].y < kernel.points[-1].y * 1.05
    assert peak.points[-1].y < copy.points[-1].y


def test_the_share_of_the_copy_has_intervals(published, file):
    kernel = series(published["copy"], "rmsnorm_cuda_vec16_v1")
    by_batch = {record.axes["batch"]: record for record in load(PUBLISHED) if record.solution == kernel.name}
    assert {point.x: point.y for point in kernel.points} == {
        batch: record.percent_of_copy for batch, record in by_batch.items()
    }
    assert all(point.low <= point.y * 1.01 and point.high >= point.y * 0.99 for point in kernel.points)
    assert published["copy"].y_scale == "linear"
    odd, slow = trace("a"), trace("b", batch=64, latency_ms=2.0, noisy=["doubt"])
    path = file(odd, trace("a", batch=64), slow)
    chart = charts(path)["copy"]
    points = {each.name: [(point.note, point.noisy) for point in each.points] for each in chart.series[:-1]}
    assert points == {"a": [("batch=8", False), ("batch=64", False)], "b": [("batch=64, noisy", True)]}
    assert chart.y_scale == "log", "0.07% and 70% are both readable"


def test_a_kernel_has_the_same_number_in_every_chart(published):
    assert set(published) == {"copy", "latency"}
    numbers = number_series(published.values())
    assert sorted(numbers.values()) == list(range(10))
    assert "a copy of the same bytes" not in numbers


def test_failures_alone_have_no_charts(file):
    path = file(trace(latency_ms=None))
    assert charts(path) == {}
