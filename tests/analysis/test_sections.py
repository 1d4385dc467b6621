from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fib_rmsnorm.analysis.results import find_results
from fib_rmsnorm.analysis.sections import cluster
from fib_rmsnorm.errors import InputError
from fib_rmsnorm.schema import BuildSpec, Solution, SourceFile
from support.trace_json import trace, trace_set, upstream_trace


def titles(*traces) -> list[str]:
    return [section.conditions.text for section in trace_set(*traces).sections.sections]


def test_numbers_of_other_conditions_get_another_section():
    assert sorted(
        titles(
            trace(),
            trace(hardware="NVIDIA A100"),
            trace(timer="cuda_events"),
            trace(clock=1530.0),
            trace(clock=None),
            trace(cold_l2=False),
            upstream_trace(),
        )
    ) == [
        "NVIDIA A100, cupti, 1980 MHz, cold L2",
        "NVIDIA H200, cuda_events, 1980 MHz, cold L2",
        "NVIDIA H200, cupti, 1530 MHz, cold L2",
        "NVIDIA H200, cupti, 1980 MHz, cold L2",
        "NVIDIA H200, cupti, 1980 MHz, warm L2",
        "NVIDIA H200, cupti, clock not recorded, cold L2",
        "NVIDIA_A100_80GB, timer not recorded, clock not recorded",
    ]


def test_other_settings_get_another_section():
    assert len(titles(trace(), trace(settings={"iterations": 50}))) == 2


def test_clocks_a_little_apart_are_one():
    assert titles(trace("a", clock=1965.0), trace("b", clock=1980.0)) == [
        "NVIDIA H200, cupti, 1965 to 1980 MHz, cold L2"
    ]


def test_a_clock_of_a_cpu_may_wander_more():
    found = titles(
        *(trace(name, timer="cpu_clock", cold_l2=None, clock=clock) for name, clock in (("a", 2600), ("b", 2800)))
    )
    assert found == ["NVIDIA H200, cpu_clock, 2600 to 2800 MHz"]


def test_a_failure_replaces_what_passed_before_at_any_clock():
    passed = [trace(clock=clock, timestamp=f"2026-01-0{day}") for day, clock in ((1, 1980.0), (2, 1530.0))]
    older, newer = (trace(latency_ms=None, timestamp=stamp) for stamp in ("2026-01-01T12", "2026-01-03"))
    other = trace("other", clock=1200.0)
    found = trace_set(*passed, newer, older, other).sections
    assert sorted(record.status for section in found.sections for record in section.records) == [
        "PASSED",
        "RUNTIME_ERROR",
        "RUNTIME_ERROR",
    ]
    assert found.superseded == 3
    found = trace_set(*passed, older).sections
    assert [record.status for section in found.sections for record in section.records] == ["PASSED", "RUNTIME_ERROR"]


def test_the_newest_of_equal_evaluations_counts():
    found = trace_set(
        trace(timestamp="2026-01-02", latency_ms=2.0),
        trace(timestamp="2026-01-03", latency_ms=3.0),
        trace(timestamp="2026-01-01", latency_ms=1.0),
    ).sections
    assert [record.latency_ms for record in found.sections[0].records] == [3.0]
    assert found.superseded == 2


def test_another_content_of_the_same_name_is_told_apart():
    found = find_results(trace_set(trace(sha="old1234"), trace(sha="new", timestamp="2026-02-01")))
    assert sorted(result.label for result in found[0].results) == ["fast_v1", "fast_v1 (earlier: old123)"]


def test_a_failure_is_told_beside_what_was_timed_by_the_same_settings():
    (section,) = find_results(trace_set(trace("good"), trace("bad", latency_ms=None)))
    assert [result.mark for result in section.results] == ["", "RUNTIME_ERROR"]


def test_a_failure_alone_has_a_section():
    assert titles(trace(latency_ms=None)) == ["NVIDIA H200, timer not recorded, clock not recorded"]


def test_what_is_interpreted_is_never_a_speedup_and_what_is_noisy_is():
    found = find_results(
        trace_set(trace("base"), trace("odd", noisy=["doubt"]), trace("slow", interpreted=True)), "base"
    )
    by_name = {result.record.solution: result for result in found[0].results}
    assert by_name["odd"].mark == "noisy" and by_name["slow"].mark == "correct"
    assert by_name["odd"].over_baseline.value == 1 and by_name["odd"].speedup.value == pytest.approx(30)
    assert by_name["slow"].bandwidth_gb_per_s is by_name["slow"].speedup is by_name["slow"].over_baseline is None


def test_the_baseline_is_the_plainest_in_python():
    """A library for GPUs alone may be called in one line, and is not what everybody has."""
    found = trace_set(trace("long"), trace("short"), trace("library"), trace("mine"))
    sources = {"long": ("x" * 9, ["cpu", "cuda"]), "short": ("x" * 5, ["cpu"]), "library": ("x", ["cuda"])}
    found.solutions = {
        name: Solution(
            name=name,
            definition="rmsnorm_d4096",
            author="baseline",
            spec=BuildSpec(language="python", target_hardware=hardware, entry_point="k.py::run"),
            sources=[SourceFile(path="k.py", content=content)],
        )
        for name, (content, hardware) in sources.items()
    }
    assert find_results(found)[0].baseline == "short"


def test_an_unknown_baseline_names_those_there():
    with pytest.raises(InputError, match=r"no Trace of a Solution 'other'.*found: fast_v1"):
        find_results(trace_set(trace()), "other")


def test_workloads_with_the_same_axes_are_told_apart():
    one, other = trace(), trace()
    other["workload"]["uuid"] = "ffff"
    other["workload"]["inputs"]["eps"]["value"] = 0.01
    (section,) = find_results(trace_set(one, other))
    assert {each.title for each in section.workloads} == {"batch=8, eps=1e-06", "batch=8, eps=0.01"}


@given(st.lists(st.floats(1, 1e4), min_size=1), st.floats(0, 0.2))
def test_clusters_cover_all_values_and_lie_apart(values, gap):
    ranges = cluster(values, gap)
    assert all(any(low <= value <= high for low, high in ranges) for value in values)
    assert all(after[0] > before[1] * (1 + gap) for before, after in pairwise(ranges))


def test_sections_that_differ_in_settings_alone_tell_them():
    found = trace_set(
        trace("a_v1"), trace("b_v1", settings={"iterations": 200}), trace("c_v1", hardware="Other")
    ).sections
    told = [each.conditions.text.rsplit(", ", 1)[-1] for each in found.sections]
    assert sorted(told) == ["cold L2", "iterations=200", "iterations=auto"]
