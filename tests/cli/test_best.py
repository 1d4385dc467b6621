"""`best` and `analyze`."""

import re

import pytest

from support.paths import PUBLISHED
from support.trace_json import trace, upstream_trace


def test_the_winner_and_those_tied_with_it(fib, file):
    path = file(
        trace("slow", latency_ms=0.003),
        trace("fast", latency_ms=0.002),
        trace("as_fast", latency_ms=0.00202),
        trace("odd", latency_ms=0.004, noisy=["the clock moved"]),
        trace("toy", interpreted=True),
        trace("wrong", latency_ms=None),
        trace("slow", batch=64, latency_ms=0.003),
    )
    outcome = fib("best", path)
    assert outcome.code == 0
    row = outcome.row("batch=8", "fast")
    assert "fast" in row.split() and row.endswith("%  as_fast") and "slow" not in row
    assert outcome.row("batch=64").split()[1] == "slow"
    (found,) = fib("best", path, "--json").json
    assert [each["winner"] for each in found["workloads"]] == ["fast", "slow"]
    assert found["workloads"][0]["tied_with"] == ["as_fast"] and 0.01 < found["workloads"][0]["apart"] < 0.1
    assert found["workloads"][1]["tied_with"] == [] and found["workloads"][1]["apart"] is None
    assert found["workloads"][0]["speedup"]["value"] == pytest.approx(30)
    board = {each["solution"]: (each["won_or_tied"], each["workloads"]) for each in found["leaderboard"]}
    assert board == {"slow": (1, 2), "fast": (1, 1), "as_fast": (1, 1), "odd": (0, 1)}


def test_who_is_left_out_is_named_with_the_reason(fib, file):
    path = file(
        trace("fast"),
        trace("toy", interpreted=True),
        trace("wrong", latency_ms=None, status="INCORRECT_NUMERICAL"),
        trace("wrong", batch=64, latency_ms=0.001, status="INCORRECT_NUMERICAL"),  # other tools may time it
    )
    for command in ("best", "analyze"):
        out = fib(command, path).lines
        assert "Left out (interpreted, so not timed): toy at batch=8" in out
        assert "Left out (INCORRECT_NUMERICAL): wrong at batch=8, batch=64" in out
        assert any(line.split()[:2] == ["batch=64", "none"] for line in out), "no batch is dropped"


def test_the_interval_decides_whatever_mark_a_number_has(fib, file):
    """17.7 us ±5% beats 156 us, and one that may be as fast ties."""
    wide = {"latency_low_ms": 0.0168, "latency_high_ms": 0.0186}
    path = file(trace("quick", latency_ms=0.0177, noisy=["the clock moved"], **wide), trace("slow", latency_ms=0.156))
    for command in ("best", "analyze"):
        (found,) = fib(command, path, "--json").json
        assert (found["workloads"][0]["winner"], found["workloads"][0]["tied_with"]) == ("quick", [])
    row = fib("best", path).row("batch=8", "quick")
    assert "17.7 us ±5%" in row and "3.39x" in row
    unsure = {"latency_low_ms": 0.012, "latency_high_ms": 0.4}
    path = file(trace("quick", latency_ms=0.0177), trace("slow", latency_ms=0.156, **unsure))
    (found,) = fib("best", path, "--json").json
    assert found["workloads"][0]["tied_with"] == ["slow"] and found["workloads"][0]["apart"] > 10


def test_a_version_that_a_newer_one_replaced_does_not_win(fib, file):
    now = {"timestamp": "2026-02-01", "sha": "bb", "latency_ms": None, "status": "INCORRECT_NUMERICAL"}
    path = file(trace("mine", latency_ms=0.001, sha="aa"), trace("mine", **now), trace("other"))
    assert fib("best", path).row("batch=8", "other").split()[1] == "other"
    (found,) = fib("best", path, "--json").json
    assert [(each["label"], each["why"]) for each in found["workloads"][0]["left_out"]] == [
        ("mine (earlier: aa)", "replaced by a newer version"),
        ("mine", "INCORRECT_NUMERICAL"),
    ]


def test_only_the_batch_sizes_asked_for(fib, file):
    path = file(*(trace(name, batch=batch) for name in ("a", "b") for batch in (1, 8, 64)))
    (ranking,) = fib("best", path, "--batch-sizes", "64,1", "--json").json
    assert [each["axes"] for each in ranking["workloads"]] == [{"batch": 1}, {"batch": 64}]
    assert {each["workloads"] for each in ranking["leaderboard"]} == {2}
    said = fib("best", file(trace("a"), trace("b", batch=64)), "--batch-sizes", "64", "--solutions", "a").refusal
    assert said == "no Trace has batch size 64 (available: 8)"


@pytest.mark.parametrize(
    ("setting", "value", "told"),
    [("iterations", 200, (", iterations=auto", ", iterations=200")), ("rtol", 0.5, ("", ", judged by rtol 0.5"))],
)
def test_winners_under_other_settings_tell_them(fib, file, setting, value, told):
    path = file(trace("a_v1"), trace("b_v1", latency_ms=0.001, settings={setting: value}))
    assert {line for line in fib("best", path).lines if line.startswith("rmsnorm_d4096 on ")} == {
        f"rmsnorm_d4096 on NVIDIA H200, cupti, 1980 MHz, cold L2{each}" for each in told
    }
    found = fib("best", path, "--json").json
    assert {each[setting]: each["workloads"][0]["winner"] for each in found} == {None: "a_v1", value: "b_v1"}


def flat(outcome) -> str:
    return " ".join(outcome.out.split())


def test_the_published_traces_answer_the_four_questions(fib):
    said = flat(fib("analyze", PUBLISHED))
    assert "1.00 FLOP per byte at batch=65536. Counted: 4 operations an element" in said
    assert "The ridge point of this device is 20.0 FLOP per byte" in said
    assert "it is memory-bound, 20 times off the ridge" in said
    assert re.search(r"At batch=\d+, \d+% of the peak and \d+% of a copy of the same bytes", said)
    assert "nothing: fits in L2" in said and "what is written may stay in the cache" in said
    # More than the peak is explained: an H100 holds 52 MB in L2, and of 67 MB at 4096 rows half are written.
    assert re.search(r"batch=4096 .* 1\d\d% +1\d\d% too high: L2 kept a part of the bytes batch=16384", said)
    (section,) = fib("analyze", PUBLISHED, "--json").json
    assert section["ridge_flops_per_byte"] > 10
    assert section["workloads"][0]["bound_by"] == "launch"


def test_what_is_not_known_is_reported_and_no_peak_where_there_is_none(fib, file):
    theirs = upstream_trace()
    theirs["definition"] = "softmax"
    theirs["evaluation"]["environment"]["hardware"] = "Some device"
    path = file(theirs)
    outcome = fib("analyze", path)
    assert outcome.code == 0
    assert outcome.out.count("nknown:") == 3
    made = trace(hardware="Some CPU", timer="cpu_clock", cold_l2=None)
    made["evaluation"]["performance"]["ceiling"]["peak_bandwidth_gb_per_s"] = None
    path = file(made)
    told = flat(fib("analyze", path))
    assert "The peak is unknown" in told and "% of peak means" not in told


def test_scaling_sets_the_latency_of_the_fastest_beside_the_bytes(fib, file):
    path = file(*(trace(batch=batch, latency_ms=ms) for batch, ms in ((8, 0.002), (128, 0.004), (1024, 0.02))))
    outcome = fib("analyze", path)
    assert outcome.row("batch=8", "batch=128").split() == ["batch=8", "batch=128", "15.1x", "2.00x"]
    assert outcome.row("batch=128", "batch=1024").split() == ["batch=128", "batch=1024", "7.97x", "5.00x"]
