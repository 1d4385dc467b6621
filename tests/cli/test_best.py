from __future__ import annotations

import json

import pytest

from support.trace_json import lines, trace


def test_the_winner_and_those_tied_with_it(fib, tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text(
        lines(
            trace("slow", latency_ms=0.003),
            trace("fast", latency_ms=0.002),
            trace("as_fast", latency_ms=0.00202),
            trace("odd", latency_ms=0.004, noisy=["the clock moved"]),
            trace("toy", interpreted=True),
            trace("wrong", latency_ms=None),
            trace("slow", batch=64, latency_ms=0.003),
        )
    )
    outcome = fib("best", path)
    assert outcome.code == 0
    row = outcome.row("batch=8", "fast")
    assert "fast" in row.split() and row.endswith("%  as_fast") and "slow" not in row
    assert outcome.row("batch=64").split()[1] == "slow"
    (found,) = json.loads(fib("best", path, "--json").out)
    assert [each["winner"] for each in found["workloads"]] == ["fast", "slow"]
    assert found["workloads"][0]["tied_with"] == ["as_fast"] and 0.01 < found["workloads"][0]["apart"] < 0.1
    assert found["workloads"][1]["tied_with"] == [] and found["workloads"][1]["apart"] is None
    assert found["workloads"][0]["speedup"]["value"] == pytest.approx(30)
    board = {each["solution"]: (each["won_or_tied"], each["workloads"]) for each in found["leaderboard"]}
    assert board == {"slow": (1, 2), "fast": (1, 1), "as_fast": (1, 1), "odd": (0, 1)}


def test_who_was_judged_by_a_given_tolerance_wins_apart(fib, tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text(lines(trace("right", latency_ms=0.003), trace("loose", latency_ms=0.001, settings={"rtol": 0.5})))
    outcome = fib("best", path)
    headings = [line for line in outcome.lines if line.startswith("rmsnorm_d4096 on")]
    assert [line.endswith("judged by rtol 0.5") for line in headings] == [False, True]
    right, loose = json.loads(fib("best", path, "--json").out)
    assert [(each["rtol"], each["workloads"][0]["winner"]) for each in (right, loose)] == [
        (None, "right"),
        (0.5, "loose"),
    ]


def test_who_is_left_out_is_named_with_the_reason(fib, tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text(
        lines(
            trace("fast"),
            trace("toy", interpreted=True),
            trace("wrong", latency_ms=None, status="INCORRECT_NUMERICAL"),
            trace("wrong", batch=64, latency_ms=0.001, status="INCORRECT_NUMERICAL"),  # other tools may time it
        )
    )
    for command in ("best", "analyze"):
        out = fib(command, path).lines
        assert "Left out: toy at batch=8 (interpreted, so not timed)" in out
        assert "Left out: wrong at batch=8; batch=64 (INCORRECT_NUMERICAL)" in out
        assert any(line.split()[:2] == ["batch=64", "none"] for line in out), "no batch is dropped"
        (found,) = json.loads(fib(command, path, "--json").out)
        small, large = found["workloads"]
        assert small["winner"] == "fast"
        assert [(each["solution"], each["why"]) for each in small["left_out"]] == [
            ("toy", "interpreted, so not timed"),
            ("wrong", "INCORRECT_NUMERICAL"),
        ]
        assert (large["winner"], large["latency_ms"]) == (None, None)


def test_the_interval_decides_whatever_mark_a_number_has(fib, tmp_path):
    """17.7 us ±5% beats 156 us, and one that may be as fast ties."""
    path = tmp_path / "t.jsonl"
    wide = {"latency_low_ms": 0.0168, "latency_high_ms": 0.0186}
    path.write_text(
        lines(trace("quick", latency_ms=0.0177, noisy=["the clock moved"], **wide), trace("slow", latency_ms=0.156))
    )
    for command in ("best", "analyze"):
        (found,) = json.loads(fib(command, path, "--json").out)
        assert (found["workloads"][0]["winner"], found["workloads"][0]["tied_with"]) == ("quick", [])
    row = fib("best", path).row("batch=8", "quick")
    assert "17.7 us ±5%" in row and "3.39x" in row
    unsure = {"latency_low_ms": 0.012, "latency_high_ms": 0.4}
    path.write_text(lines(trace("quick", latency_ms=0.0177), trace("slow", latency_ms=0.156, **unsure)))
    (found,) = json.loads(fib("best", path, "--json").out)
    assert found["workloads"][0]["tied_with"] == ["slow"] and found["workloads"][0]["apart"] > 10


def test_a_version_that_a_newer_one_replaced_does_not_win(fib, tmp_path):
    path = tmp_path / "t.jsonl"
    now = {"timestamp": "2026-02-01", "sha": "bb", "latency_ms": None, "status": "INCORRECT_NUMERICAL"}
    path.write_text(lines(trace("mine", latency_ms=0.001, sha="aa"), trace("mine", **now), trace("other")))
    assert fib("best", path).row("batch=8", "other").split()[1] == "other"
    (found,) = json.loads(fib("best", path, "--json").out)
    assert [(each["label"], each["why"]) for each in found["workloads"][0]["left_out"]] == [
        ("mine (earlier: aa)", "superseded by a newer version"),
        ("mine", "INCORRECT_NUMERICAL"),
    ]


def test_only_the_batch_sizes_asked_for(fib, tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text(lines(*(trace(name, batch=batch) for name in ("a", "b") for batch in (1, 8, 64))))
    (ranking,) = json.loads(fib("best", path, "--batch-sizes", "64,1", "--json").out)
    assert [each["axes"] for each in ranking["workloads"]] == [{"batch": 1}, {"batch": 64}]
    assert {each["workloads"] for each in ranking["leaderboard"]} == {2}
    report = json.loads(fib("report", path, "--batch-sizes", "8", "--json").out)
    assert [(each["solution"], each["axes"]["batch"]) for each in report["results"]] == [("a", 8), ("b", 8)]
    (findings,) = json.loads(fib("analyze", path, "--batch-sizes", "1,8", "--json").out)
    assert [each["axes"] for each in findings["workloads"]] == [{"batch": 1}, {"batch": 8}]


@pytest.mark.parametrize("command", ["best", "report", "analyze"])
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--batch-sizes", "8,16"], "no Trace has batch size 16 (available: 8, 64)"),
        (["--batch-sizes", "64", "--solutions", "a"], "no Trace has batch size 64 (available: 8)"),
        (["--batch-sizes", "0"], "--batch-sizes: '0' is not a positive integer"),
    ],
)
def test_a_batch_size_of_which_there_is_no_trace_is_one_line(fib, tmp_path, command, options, said):
    path = tmp_path / "t.jsonl"
    path.write_text(lines(trace("a"), trace("b", batch=64)))
    outcome = fib(command, path, *options)
    assert (outcome.code, outcome.out, outcome.err) == (2, "", f"fib-rmsnorm: {said}\n")


def test_winners_under_other_settings_tell_them(fib, tmp_path):
    path = tmp_path / "traces.jsonl"
    path.write_text(lines(trace("a_v1"), trace("b_v1", settings={"iterations": 200})))
    assert {line for line in fib("best", path).lines if line.startswith("rmsnorm_d4096 on ")} == {
        f"rmsnorm_d4096 on NVIDIA H200, cupti, 1980 MHz, cold L2, iterations={calls}" for calls in ("auto", 200)
    }
    found = json.loads(fib("best", path, "--json").out)
    assert {each["iterations"]: each["workloads"][0]["winner"] for each in found} == {None: "a_v1", 200: "b_v1"}
