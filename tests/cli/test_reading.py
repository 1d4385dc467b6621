"""Whatever Traces hold, the commands that read them say something sensible or one line, and never a traceback."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.trace_json import trace

numbers = st.sampled_from([None, 0, -1.0, 1e-300, 1e-9, 0.002, 1.0, 1e9, 1e300])
TIMINGS = (
    *("latency_ms", "reference_latency_ms", "speedup_factor", "latency_low_ms", "latency_high_ms"),
    *("latency_p5_ms", "latency_p95_ms", "bandwidth_gb_per_s", "percent_of_copy", "host_overhead_us", "a_a_difference"),
)
CEILINGS = ("empty_ms", "empty_host_us", "copy_ms", "copy_low_ms", "peak_bandwidth_gb_per_s")
performances = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(TIMINGS, numbers),
        "bytes_moved": st.sampled_from([None, 0, 1, 24576, 10**15]),
        "trial_medians_ms": st.none() | st.lists(st.sampled_from([0.0, 0.002, 1e9]), max_size=4),
        "timer": st.sampled_from([None, "cupti", "cpu_clock", "stranger"]),
        "cold_l2": st.none() | st.booleans(),
        "interpreted": st.booleans(),
        "samples": st.sampled_from([None, 0, 200]),
        "noisy": st.lists(st.just("doubt"), max_size=1),
        "ceiling": st.none() | st.fixed_dictionaries(dict.fromkeys(CEILINGS, numbers)),
        "clocks": st.none() | st.fixed_dictionaries({"during_mhz": numbers}),
    },
)
axes = st.dictionaries(st.sampled_from(["batch", "length", ""]), st.sampled_from([0, 1, 8, 65536]), max_size=2)


@st.composite
def any_trace(draw):
    made = trace(draw(st.sampled_from(["a", "b", "[x]"])))
    made["definition"] = draw(st.sampled_from(["rmsnorm_d4096", "softmax", ""]))
    made["workload"]["axes"] = draw(axes)
    made["workload"]["uuid"] = draw(st.sampled_from(["", "u", "v"]))
    evaluation = made["evaluation"]
    evaluation["status"] = draw(st.sampled_from(["PASSED", "PASSED", "PASSED", "TIMEOUT", "odd"]))
    evaluation["environment"]["hardware"] = draw(st.sampled_from(["NVIDIA H200", "", "cpu"]))
    evaluation["timestamp"] = draw(st.sampled_from(["", "2026-01-01", "yesterday"]))
    if draw(st.booleans()):
        evaluation["performance"].update(draw(performances))
    elif draw(st.booleans()):
        evaluation["performance"] = None
    return made


def check(outcome):
    """There is a report, or a line that says why not (an object with --json); a line for each file not read whole."""
    assert outcome.out.strip() or outcome.code == 2
    assert all(line.startswith(("fib-rmsnorm: ", '{"error": ')) for line in outcome.err.splitlines())


@pytest.mark.parametrize(
    "command",
    [
        ["report"],
        ["report", "--format", "csv"],
        ["report", "--format", "html"],
        ["report", "--json"],
        ["analyze"],
        ["analyze", "--json"],
        ["best"],
        ["best", "--json"],
        ["history", "*"],
        ["history", "*", "--json"],
    ],
    ids=" ".join,
)
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(traces=st.lists(any_trace(), min_size=1, max_size=8))
def test_any_traces(fib, tmp_path, command, traces):
    path = tmp_path / "t.json"
    path.write_text(json.dumps(traces))
    outcome = fib(*command, path)
    check(outcome)


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(sides=st.lists(st.lists(any_trace(), min_size=1, max_size=6), min_size=2, max_size=2))
def test_any_comparison(fib, tmp_path, sides):
    paths = [tmp_path / name for name in ("old.json", "new.json")]
    for path, traces in zip(paths, sides, strict=True):
        path.write_text(json.dumps(traces))
    for options in ([], ["--json", "--allow", "device,timer,clock,cache"]):
        outcome = fib("compare", *paths, *options)
        check(outcome)


LONG = "x" * 300


@pytest.mark.parametrize(
    "command",
    [
        ("try", f"{LONG}.py"),
        ("report", LONG),
        ("merge", ".", LONG),
        ("compare", f"{LONG}.json", "."),
        ("exercise", "1", LONG),
        ("tune", LONG),
    ],
    ids=lambda command: command[0],
)
def test_a_name_that_no_file_can_have_is_one_line(fib, full_registry, command):
    outcome = fib(*command)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("fib-rmsnorm: ") and outcome.err.count("\n") == 1 and LONG in outcome.err
