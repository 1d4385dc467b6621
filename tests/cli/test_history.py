"""`history`: what was measured of a Solution over time, and what certainly changed."""

import pytest

from support.trace_json import trace


def on(day, latency_us, sha="aaaaaaaa", batch=8, **others):
    """A Trace of that day."""
    latency_ms = latency_us and latency_us / 1e3
    return trace("mine_v1", batch, latency_ms, timestamp=f"2026-01-{day:02}T10:00:00+00:00", sha=sha, **others)


@pytest.fixture
def history(fib, file):
    """The runs of the only Workload as JSON."""

    def run(*traces):
        return fib("history", "mine_v1", file(*traces), "--json").answer

    return run


def verdicts(found):
    (each,) = found["histories"]
    (workload,) = each["workloads"]
    return [run["verdict"] for run in workload["runs"]]


def test_each_run_in_the_order_of_time_with_what_certainly_changed_noisy_or_not(fib, file):
    path = file(
        *(on(4, 1.5, "cccccccc"), on(1, 2.0), on(2, 2.01), on(3, 3.0, "bbbbbbbb", noisy=["the clock moved"])),
        *(on(1, 60, batch=512), on(4, 60.1, "cccccccc", batch=512)),
        trace("another_v1"),
    )
    outcome = fib("history", "mine_v1", path)
    assert outcome.code == 0 and "another_v1" not in outcome.out
    assert outcome.lines[0] == "mine_v1 (rmsnorm_d4096) on NVIDIA H200"
    assert outcome.lines[2] == "6 runs, 2 changes."
    changes = [line.split(" (")[0] for line in outcome.lines[4:6]]
    assert changes == ["batch=8 on 2026-01-03 10:00: slower", "batch=8 on 2026-01-04 10:00: faster"]
    assert all(line.endswith("new sources") for line in outcome.lines[4:6])
    cells = [line.split() for line in outcome.lines[8:12]]
    assert [row[:2] for row in cells] == [["batch=8", f"2026-01-0{day}"] for day in (1, 2, 3, 4)]
    assert [row[3:5] for row in cells] == [["aaaaaa", "2.00"], ["aaaaaa", "2.01"], ["bbbbbb", "*"], ["cccccc", "*"]]
    assert [row[-1] for row in cells] == ["first", "tie", "slower", "faster"]
    assert "+0.5%" in cells[1] and "+49.3%" in cells[2] and "-50.0%" in cells[3]
    assert "Noisy: batch=8 on 2026-01-03 10:00: the clock moved" in outcome.lines


def test_a_change_is_what_compare_calls_one(fib, history, file):
    """Two runs of each pair: from clearly none to clearly one."""
    for latency_us in (60.0, 60.5, 61.0, 61.5, 62.0, 63.0, 66.0):
        found = history(on(1, 60.0), on(2, latency_us, "bbbbbbbb"))
        old, new = file(on(1, 60.0)), file(on(2, latency_us, "bbbbbbbb"))
        (compared,) = fib("compare", old, new, "--json").json["comparisons"]
        assert verdicts(found)[1] == compared["verdict"]
        assert found["histories"][0]["workloads"][0]["runs"][1]["change"]["ratio"] == compared["ratio"]


def test_many_runs_are_not_many_changes(history):
    """With one more comparison each interval is wider: all of them together have 95%."""
    one = history(on(1, 60.0), on(2, 61.0))
    many = history(*(on(day, 60.0 + day % 2 * 0.05) for day in range(1, 21)))
    assert many["confidence_of_each"] > one["confidence_of_each"] == 0.95
    assert set(verdicts(many)) == {"first", "tie"}


def test_a_failure_is_a_change_and_so_is_its_end(fib, history, file):
    traces = (
        on(1, 2.0),
        on(2, None, "bbbbbbbb", status="INCORRECT_NUMERICAL"),
        on(3, None, "bbbbbbbb", status="INCORRECT_NUMERICAL"),
        on(4, 3.0, "cccccccc"),
        on(5, 3.0, "cccccccc"),
    )
    assert verdicts(history(*traces)) == ["first", "now fails", "fails", "passes again, slower", "tie"]
    outcome = fib("history", "mine_v1", file(*traces))
    assert outcome.row("2026-01-02", "fails:").endswith("now fails: INCORRECT_NUMERICAL")


def test_runs_of_other_timers_clocks_and_devices_are_not_compared(history):
    found = history(
        on(1, 2.0), on(2, 9.0, timer="cuda_events"), on(3, 4.0, clock=990.0), on(4, 2.0), on(5, 1.0, hardware="GPU 2")
    )
    first, other = found["histories"]
    assert (first["hardware"], other["hardware"]) == ("GPU 2", "NVIDIA H200")
    assert [run["verdict"] for run in other["workloads"][0]["runs"]] == [
        "first", "other timer", "other timer, clock", "tie",
    ]  # fmt: skip
    assert [run["verdict"] for run in first["workloads"][0]["runs"]] == ["first"]


def test_a_changed_definition_is_marked_and_nothing_is_compared_across_it(fib, history, file):
    """Neither is slower what computes more, nor fails what another answer is asked of."""
    cc, dd = {"definition_sha": "cc1"}, {"definition_sha": "dd2"}
    traces = (
        on(1, 2.0, **cc),
        on(2, 40.0, **dd),
        on(3, 40.0, **dd),
        on(4, 3.0, **cc),
        on(5, None, **dd),
        on(6, None, **dd),
        on(7, 2.0, **cc),
    )
    assert verdicts(history(*traces)) == [
        "first",
        "other definition",
        "tie",
        "slower, other definition",
        "fails, other definition",
        "fails",
        "faster, other definition",
    ]
    outcome = fib("history", "mine_v1", file(*traces))
    assert "7 runs, 2 changes." in outcome.lines
    verdict = {line.split()[1]: line.split("  ")[-1].strip() for line in outcome.lines if line.startswith("batch=8   ")}
    assert verdict["2026-01-02"] == "other definition" and verdict["2026-01-04"] == "slower, other definition"
    assert verdict["2026-01-05"] == "fails, other definition: RUNTIME_ERROR"


def test_a_trace_that_tells_no_version_of_its_definition_is_compared_with_any(history):
    found = history(on(1, 2.0), on(2, 2.0, definition_sha="cc1"), on(3, 2.0))
    assert verdicts(found) == ["first", "tie", "tie"]


def test_a_trace_in_two_files_is_one_run_and_choices_are_kept(fib, file):
    one, two = file(on(1, 2.0), on(1, 60, batch=512)), file(on(1, 2.0), on(2, 2.0))
    found = fib("history", "mine_v1", one, two, "--batch-sizes", "8", "--json").json
    assert verdicts(found) == ["first", "tie"]
