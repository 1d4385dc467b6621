"""Traces in sections of equal conditions, and the fastest Solution of each beside the fastest peer."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fib_rmsnorm.analysis.loading import load
from fib_rmsnorm.analysis.ranking import summarize
from fib_rmsnorm.analysis.results import find_results
from fib_rmsnorm.analysis.sections import cluster
from support.paths import PUBLISHED
from support.registries import make_solution
from support.trace_json import trace, trace_set, upstream_trace


def titles(*traces) -> list[str]:
    return [conditions.text for _, conditions in trace_set(*traces).sections]


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
            trace(latency_ms=None, hardware="A failing GPU"),
        )
    ) == [
        "A failing GPU, timer not recorded, clock not recorded",
        "NVIDIA A100, cupti, 1980 MHz, cold L2",
        "NVIDIA H200, cuda_events, 1980 MHz, cold L2",
        "NVIDIA H200, cupti, 1530 MHz, cold L2",
        "NVIDIA H200, cupti, 1980 MHz, cold L2",
        "NVIDIA H200, cupti, 1980 MHz, warm L2",
        "NVIDIA H200, cupti, clock not recorded, cold L2",
        "NVIDIA_A100_80GB, timer not recorded, clock not recorded",
    ]


@pytest.mark.parametrize(
    ("one", "other", "conditions", "title"),
    [
        (1965, 1980, {}, "NVIDIA H200, cupti, 1965 to 1980 MHz, cold L2"),
        (2600, 2800, {"timer": "cpu_clock", "cold_l2": None}, "NVIDIA H200, cpu_clock, 2600 to 2800 MHz"),
    ],
)
def test_clocks_a_little_apart_are_one_and_of_a_cpu_further(one, other, conditions, title):
    assert titles(*(trace(name, clock=clock, **conditions) for name, clock in (("a", one), ("b", other)))) == [title]


def test_a_failure_replaces_what_passed_before_at_any_clock():
    passed = [trace(clock=clock, timestamp=f"2026-01-0{day}") for day, clock in ((1, 1980.0), (2, 1530.0))]
    older, newer = (trace(latency_ms=None, timestamp=stamp) for stamp in ("2026-01-01T12", "2026-01-03"))
    other = trace("other", clock=1200.0)
    found = trace_set(*passed, newer, older, other)
    assert sorted(record.status for records in found.sections.values() for record in records) == [
        "PASSED",
        "RUNTIME_ERROR",
        "RUNTIME_ERROR",
    ]
    assert found.superseded == 3
    found = trace_set(*passed, older)
    assert [record.status for records in found.sections.values() for record in records] == ["PASSED", "RUNTIME_ERROR"]


def test_the_baseline_is_the_plainest_in_python():
    """A library for GPUs alone may be called in one line, and is not what everybody has."""
    found = trace_set(trace("long"), trace("short"), trace("library"), trace("mine"))
    sources = {"long": ("x" * 9, ["cpu", "cuda"]), "short": ("x" * 5, ["cpu"]), "library": ("x", ["cuda"])}
    found.solutions = {
        name: make_solution(
            name, "k.py", content, author="baseline", definition="rmsnorm_d4096", target_hardware=hardware
        )
        for name, (content, hardware) in sources.items()
    }
    assert find_results(found)[0].baseline == "short"


@given(st.lists(st.floats(1, 1e4), min_size=1), st.floats(0, 0.2))
def test_clusters_cover_all_values_and_lie_apart(values, gap):
    ranges = cluster(values, gap)
    assert all(any(low <= value <= high for low, high in ranges) for value in values)
    assert all(after[0] > before[1] * (1 + gap) for before, after in pairwise(ranges))


def match_of(*traces, peers=()):
    """The only match of Traces on one Workload; `peers` names the Solutions by the author baseline."""
    found = trace_set(*traces)
    for record in (record for records in found.sections.values() for record in records):
        record.author = "baseline" if record.solution in peers else "ann"
    ((match,),) = summarize(find_results(found)).values()
    return match


@pytest.mark.parametrize(("latency_ms", "verdict"), [(0.0015, "faster"), (0.00201, "tie"), (0.0025, "slower")])
def test_the_fastest_is_compared_with_the_fastest_peer(latency_ms, verdict):
    mine = (trace("mine", latency_ms=latency_ms), trace("slower", latency_ms=0.009))
    theirs = (trace("peer", latency_ms=0.002), trace("slow_peer", latency_ms=0.008))
    match = match_of(*mine, *theirs, peers=("peer", "slow_peer"))
    assert match.own.winner.label == "mine" and match.peers.winner.label == "peer"
    assert match.times_as_fast.value == pytest.approx(0.002 / latency_ms)
    assert match.verdict == verdict
    alone = match_of(*mine)
    assert (alone.peers.winner, alone.times_as_fast, alone.verdict) == (None, None, None)


def test_a_device_has_a_summary_of_all_definitions():
    other = trace("other_v1", latency_ms=0.003)
    other["definition"] = "layernorm_d4096"
    found = summarize(find_results(trace_set(trace("mine"), other, trace("mine", hardware="Some GPU"))))
    told = {on: [(m.definition, m.own.winner.record.latency_ms) for m in matches] for on, matches in found.items()}
    assert told["NVIDIA H200"] == [("layernorm_d4096", 0.003), ("rmsnorm_d4096", 0.002)]
    assert told["Some GPU"] == [("rmsnorm_d4096", 0.002)]


def test_the_newest_conditions_count_in_which_both_sides_were_measured():
    """Numbers of different clocks are never compared, and a clock may move in the midst of a bench."""
    day = "2026-01-0{}T00:00:00".format
    pair = [trace(name, latency_ms=each, timestamp=day(2)) for name, each in (("mine", 0.002), ("peer", 0.0025))]
    older = [trace(name, latency_ms=each, timestamp=day(1), clock=1500) for name, each in (("mine", 3), ("peer", 4))]
    alone = trace("mine", latency_ms=0.001, timestamp=day(3), clock=1700)
    match = match_of(*pair, *older, alone, peers=("peer",))
    assert match.times_as_fast.value == pytest.approx(1.25) and "1980 MHz" in match.conditions
    assert match_of(trace("mine", timestamp=day(2)), alone).own.winner.record.latency_ms == 0.001


def test_the_published_traces_have_a_row_for_each_workload(fib):
    outcome = fib("report", PUBLISHED, "--summary", "--json")
    rows = outcome.json
    timed = [record for record in load(PUBLISHED) if record.is_native]
    assert {row["workload"] for row in rows} == {record.workload for record in timed}
    for row in rows:
        here = [record for record in timed if record.workload == row["workload"]]
        latencies = {
            is_peer: min(r.latency_ms for r in here if (r.author == "baseline") == is_peer) for is_peer in (True, False)
        }
        assert row["times_as_fast"] == pytest.approx(latencies[True] / latencies[False])
        assert row["latency_ms"] == latencies[False] and row["author"] == "fib-rmsnorm"
    table = fib("report", PUBLISHED, "--summary").lines
    assert table[0] == "1 Definition on NVIDIA H100 80GB HBM3"
    assert len([line for line in table if "batch=" in line]) == len(rows)
