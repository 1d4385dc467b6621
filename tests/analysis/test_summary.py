"""The fastest Solution of each Definition beside the fastest peer."""

from __future__ import annotations

import json

import pytest

from fib_rmsnorm.analysis.loading import load
from fib_rmsnorm.analysis.ranking import summarize
from fib_rmsnorm.analysis.results import find_results
from support.paths import PUBLISHED
from support.trace_json import trace, trace_set


def match_of(*traces, peers=()):
    """The only match of Traces on one Workload; `peers` names the Solutions by the author baseline."""
    found = trace_set(*traces)
    for record in (record for section in found.sections.sections for record in section.records):
        record.author = "baseline" if record.solution in peers else "ann"
    ((match,),) = [each.matches for each in summarize(find_results(found))]
    return match


@pytest.mark.parametrize(("latency_ms", "verdict"), [(0.0015, "faster"), (0.00201, "tie"), (0.0025, "slower")])
def test_the_fastest_is_compared_with_the_fastest_peer(latency_ms, verdict):
    mine = (trace("mine", latency_ms=latency_ms), trace("slower", latency_ms=0.009))
    theirs = (trace("peer", latency_ms=0.002), trace("slow_peer", latency_ms=0.008))
    match = match_of(*mine, *theirs, peers=("peer", "slow_peer"))
    assert match.own.winner.label == "mine" and match.peers.winner.label == "peer"
    assert match.times_as_fast.value == pytest.approx(0.002 / latency_ms)
    assert match.verdict == verdict


def test_a_noisy_peer_is_a_peer():
    odd = trace("odd", latency_ms=0.0011, noisy=["the clock moved"])
    match = match_of(trace("mine", latency_ms=0.0015), trace("peer"), odd, peers=("peer", "odd"))
    assert match.times_as_fast.value == pytest.approx(0.0011 / 0.0015) and match.verdict == "slower"


def test_without_peers_nothing_is_compared():
    match = match_of(trace("mine"))
    assert (match.peers.winner, match.times_as_fast, match.verdict) == (None, None, None)


def test_a_device_has_a_summary_of_all_definitions():
    other = trace("other_v1", latency_ms=0.003)
    other["definition"] = "layernorm_d4096"
    found = summarize(find_results(trace_set(trace("mine"), other, trace("mine", hardware="Some GPU"))))
    told = {each.hardware: [(m.definition, m.own.winner.record.latency_ms) for m in each.matches] for each in found}
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
    rows = json.loads(outcome.out)
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


def test_one_table_at_a_time(fib):
    assert "are two reports" in fib("report", PUBLISHED, "--summary", "--against", "x").err
    refused = fib("report", PUBLISHED, "--summary", "--format", "html")
    assert refused.code == 2 and "--summary is one table: leave out" in refused.err
