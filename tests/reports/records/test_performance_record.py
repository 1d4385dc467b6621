"""What `show` tells a sceptic of a latency and of distances in ULP."""

import pytest

from fib_rmsnorm.schema import Chain, Performance
from support.full_registry import CUDA, DEFINITION, make_trace
from support.trace_json import trace


@pytest.fixture
def show(fib, full_registry):
    """Show a Trace of an evaluation with what is given changed in its Performance."""

    def run(extra=None, **changes):
        measured = trace()["evaluation"]["performance"] | changes
        measured["clocks"] |= {"throttle_reasons": ["sw_power_cap"], "max_temperature_c": 41}
        told = make_trace(
            full_registry.packed_solutions()[CUDA], full_registry.workloads(DEFINITION)[0], hardware="Other GPU"
        )
        told.evaluation.performance = Performance.model_validate(measured)
        told.evaluation.correctness.extra |= extra or {}
        full_registry.append_trace(told, "ann", "norm")
        return fib("show", f"{CUDA}@batch=1")

    return run


def test_all_that_was_recorded_is_shown_by_its_name(show):
    chain = Chain(links=40, chained_latency_ms=0.0014, chained_low_ms=0.00139, chained_high_ms=0.00141)
    outcome = show(
        launches=[{"name": "scale\x1b[2J", "grid": [8, 1, 1]}],
        chain=chain,
        reference_low_ms=0.05,
        reference_high_ms=0.1,
        a_a_difference=0.004,
        build_s=1.5,
        peak_memory_bytes=512,
    )
    found = {name: value.strip() for name, colon, value in (line.partition(": ") for line in outcome.lines) if colon}
    assert {
        "latency_ms": "0.002",
        "latency_low_ms": "0.00199",
        "samples": "200",
        "build_s": "1.5",
        "cold_l2": "true",
        "chain.chained_latency_ms": "0.0014",
        "ceiling.copy_method": "cuda 64x1",
        "clocks.during_mhz": "1980.0",
        "clocks.throttle_reasons": '["sw_power_cap"]',
    }.items() <= found.items()
    assert found["launches"] == '[{"name": "scale\\u001b[2J", "grid": [8, 1, 1]}]'
    assert found["speedup"].startswith("30.0x (")
    assert not {"disturbed_calls", "clocks.other_share"} & found.keys(), "what is unknown is left out"


def test_every_mark_is_shown_first_and_in_yellow(show, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    outcome = show(noisy=["it is faster than an empty kernel", "the clock moved\x1b]0;by 3%"])
    assert outcome.lines[0].endswith("\x1b[1;33m  noisy\x1b[0m")
    assert "\x1b[1;33mnoisy\x1b[0m\x1b[33m: it is faster than an empty kernel\x1b[0m\n" in outcome.out
    assert "\x1b]" not in outcome.out
    assert outcome.out.index("the clock moved") < outcome.out.index("latency_ms:")


def ulp(*counts: int) -> dict[str, object]:
    buckets = ("0", "1", "2", "3-4", "5-8", "9-16", "17+")
    reached = max(index for index, number in enumerate(counts) if number)
    mean = sum(index * number for index, number in enumerate(counts)) / sum(counts)
    histogram = dict(zip(buckets, (*counts, *[0] * (len(buckets) - len(counts))), strict=True))
    return {"maximum": reached, "mean": mean, "histogram": histogram}


def test_distances_in_ulp_beside_those_of_the_reference(show):
    case = {"max_absolute_error": 0.5, "mismatched": 1}
    cases = [
        {"case": "workload", **case, "ulp": {"out": ulp(90, 10)}, "reference_ulp": {"out": ulp(80, 15, 5)}},
        {"case": "hard rows", **case, "ulp": {"out": ulp(100)}},
        {"case": "hard rows", **case, "max_absolute_error": 2.0, "ulp": {"out": ulp(270, 30)}},
    ]
    lines = [line.split() for line in show({"cases": cases}).lines]
    # Cases of one name are one row: the largest error, all wrong elements, all elements' distances.
    assert ["workload", "1", "0.5", "1"] in lines
    assert ["hard", "rows", "2", "2", "2"] in lines
    start = lines.index(["ULP", "of", "out", "maximum", "mean", "0", "ULP", "1", "ULP", "2", "ULP"])
    assert lines[start + 1 : start + 4] == [
        ["workload", "1", "0.1", "90", "10", "0"],
        ["workload,", "by", "the", "reference", "2", "0.25", "80", "15", "5"],
        ["hard", "rows", "1", "0.075", "370", "30", "0"],
    ]


def test_an_output_without_floats_has_no_ulp(show):
    cases = [{"case": "workload", "max_absolute_error": 0.0, "mismatched": 0, "ulp": {"indices": None, "out": ulp(8)}}]
    outcome = show({"cases": cases})
    assert "ULP of out" in outcome.out
    assert "ULP of indices" not in outcome.out
