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
            trace("odd", latency_ms=0.001, suspect=["doubt"]),
            trace("toy", latency_ms=0.001, interpreted=True),
            trace("wrong", latency_ms=None),
            trace("slow", batch=64, latency_ms=0.003),
        )
    )
    outcome = fib("best", path)
    assert outcome.code == 0
    row = outcome.row("batch=8")
    assert "fast" in row.split() and row.endswith("as_fast") and "slow" not in row
    assert outcome.row("batch=64").split()[1] == "slow"
    (found,) = json.loads(fib("best", path, "--json").out)
    assert [each["winner"] for each in found["workloads"]] == ["fast", "slow"]
    assert found["workloads"][0]["tied_with"] == ["as_fast"]
    board = {each["solution"]: (each["won_or_tied"], each["workloads"]) for each in found["leaderboard"]}
    assert board == {"slow": (1, 2), "fast": (1, 1), "as_fast": (1, 1)}


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


def test_nobody_wins_with_wrong_results_alone(fib, tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text(lines(trace(latency_ms=None)))
    outcome = fib("best", path)
    assert outcome.code == 0 and "No winner" in outcome.out


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
