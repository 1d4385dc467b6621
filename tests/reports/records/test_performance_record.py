"""What `show` tells a sceptic of a latency and of distances in ULP."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fib_rmsnorm.schema import Ceiling, Chain, Clocks, KernelLaunch, trace_id
from support.full_registry import CUDA, DEFINITION, make_trace

CLOCKS = Clocks(
    before_mhz=1755,
    during_mhz=1980,
    after_mhz=1965,
    max_temperature_c=41,
    throttle_reasons=["sw_power_cap"],
    other_processes=2,
)
CEILING = Ceiling(
    empty_ms=0.001,
    empty_host_us=2.2,
    copy_ms=0.0018,
    copy_low_ms=0.00179,
    copy_high_ms=0.00181,
    copy_method="cuda 256 threads",
    note="tuned",
    peak_bandwidth_gb_per_s=3352.3,
)
MEASURED = {
    "latency_ms": 0.0025,
    "reference_latency_ms": 0.0747,
    "speedup_factor": 29.9,
    "timer": "cupti",
    "cold_l2": True,
    "samples": 4200,
    "trials": 6,
    "latency_low_ms": 0.00248,
    "latency_high_ms": 0.00252,
    "latency_p5_ms": 0.0024,
    "latency_p95_ms": 0.0027,
    "busy_ms": 0.0022,
    "pieces": 3,
    "hot_latency_ms": 0.0019,
    "a_a_difference": 0.004,
    "bytes_moved": 24576,
    "bandwidth_gb_per_s": 9.83,
    "ceiling": CEILING,
    "percent_of_copy": 72.0,
    "host_overhead_us": 3.1,
    "first_call_ms": 210.0,
    "build_s": 1.5,
    "peak_memory_bytes": 512,
    "clocks": CLOCKS,
}


@pytest.fixture
def show(fib, full_registry):
    """Show a Trace of an evaluation with what is given changed in its Performance."""

    def run(extra=None, **changes):
        trace = make_trace(
            full_registry.packed_solutions()[CUDA], full_registry.workloads(DEFINITION)[0], hardware="Other GPU"
        )
        performance = trace.evaluation.performance
        trace.evaluation.performance = performance.model_copy(update=MEASURED | changes)
        trace.evaluation.correctness.extra |= extra or {}
        full_registry.append_trace(trace, "ann", "norm")
        return fib("show", trace_id(trace))

    return run


def facts(outcome) -> dict[str, str]:
    """The lines `name: value`."""
    return {name: value.strip() for name, colon, value in (line.partition(": ") for line in outcome.lines) if colon}


def test_all_that_says_how_sure_a_latency_is(show):
    assert {
        "Latency": "2.50 us (median); 95% interval 2.48 us to 2.52 us, ±0.8%",
        "Spread": "5% to 95%: 2.40 us to 2.70 us",
        "Samples": "4200 calls in 6 trials",
        "A/A": "earlier and later trials differ by 0.4%",
        "Busy": "2.20 us in 3 pieces",
        "With L2 hot": "1.90 us",
        "Reference": "74.7 us; speedup 29.9x",
        "Bandwidth": "9.83 GB/s, 72% of copy, 0.29% of the datasheet's 3352 GB/s",
        "Bytes moved": "24.6 kB (inputs and outputs, each once)",
        "Copy": "1.80 us for as many bytes, 95% interval 1.79 us to 1.81 us, by cuda 256 threads, tuned",
        "Empty kernel": "1.00 us",
        "Host overhead": "3.10 us to issue a call, 2.20 us for an empty kernel",
        "First call": "210 ms",
        "Build": "1.50 s",
        "Peak memory": "512 B beyond its outputs",
        "Timer": "cupti",
        "L2": "evicted before each call",
        "Clock": "1755 MHz before, 1980 during, 1965 after",
        "Conditions": "throttled: sw_power_cap, at most 41 °C, 2 other processes on the device",
    }.items() <= facts(show()).items()


def test_a_wide_reference_gives_a_wide_speedup(show):
    told = facts(show(reference_low_ms=0.05, reference_high_ms=0.5))["Reference"]
    assert told.startswith("74.7 us, 95% interval 50.0 us to 500 us; speedup 29.9x (4.")


def test_the_load_of_a_cpu_is_told(show):
    clocks = Clocks(during_mhz=2300, other_share=0.62)
    assert facts(show(timer="cpu_clock", clocks=clocks, disturbed_calls=90))["Conditions"] == (
        "other processes took 62% of the cores, 90 timed calls had to wait for a core"
    )


def test_halves_far_apart_are_a_factor_apart(show):
    assert facts(show(a_a_difference=540.04))["A/A"] == "earlier and later trials differ by 540x"


def test_what_was_launched(show):
    one = KernelLaunch("RmsNorm", (8, 1, 1), (256, 1, 1), 40, static_shared_bytes=32, dynamic_shared_bytes=0)
    assert "Kernel" not in facts(show(launches=None))
    told = facts(show(launches=[one]))["Kernel"]
    assert told == "RmsNorm: grid 8 x 1 x 1, block 256 x 1 x 1, 40 registers a thread, 32 B shared"
    other = replace(one, name="scale\x1b[2J", static_shared_bytes=0, dynamic_shared_bytes=4096)
    two = facts(show(launches=[one, other]))
    assert two["Kernel 1"] == told
    assert two["Kernel 2"].startswith("scale\\u001b[2J: grid 8 x 1 x 1")
    assert two["Kernel 2"].endswith("40 registers a thread, 4.10 kB dynamic shared")


def test_what_a_call_costs_in_a_graph(show):
    assert "In a graph" not in facts(show())
    chain = Chain(
        links=40,
        chained_latency_ms=0.0014,
        chained_low_ms=0.00139,
        chained_high_ms=0.00141,
        chained_a_a_difference=0.004,
        chained_bare_link_ms=0.0031,
        chained_replays=128,
        dependent_latency_ms=0.0009,
        dependent_low_ms=0.0008,
        dependent_high_ms=0.001,
        chain_noisy=["the clock moved"],
        clocks=CLOCKS,
    )
    told = facts(show(chain=chain))
    assert told["In a graph"] == (
        "1.40 us a call, ±0.7%, 128 replays, earlier and later trials differ by 0.4%,"
        " 40 links, of 3.10 us without the call, 1980 MHz, noisy: the clock moved"
    )
    assert told["Dependent"] == "0.90 us a call, ±11.1%, by programmatic dependent launch"
    stuck = facts(show(chain=Chain(links=40, chain_refused="it \x1b[2J waits")))
    assert stuck["In a graph"] == "not captured: it \\u001b[2J waits" and "Dependent" not in stuck


def test_a_call_of_one_piece_is_busy_all_along(show):
    assert "Busy" not in facts(show(pieces=1))


def test_a_device_that_is_as_it_should_be(show):
    clocks = CLOCKS.model_copy(update={"throttle_reasons": [], "other_processes": 0})
    assert facts(show(clocks=clocks))["Conditions"] == "not throttled, at most 41 °C, no other process on the device"


def test_what_a_cpu_cannot_tell_is_left_out(show):
    ceiling = CEILING.model_copy(
        update={
            "empty_host_us": None,
            "peak_bandwidth_gb_per_s": None,
            "threads": [0, 2],
            "note": None,
        }
    )
    clocks = Clocks(before_mhz=2300, during_mhz=2299.7)
    told = facts(show(timer="cpu_clock", cold_l2=None, ceiling=ceiling, clocks=clocks))
    assert told["Bandwidth"] == "9.83 GB/s, 72% of copy"
    assert told["Copy"].endswith("by cuda 256 threads, pinned to 2 cores")
    assert told["Empty call"] == "1.00 us"
    assert told["Clock"] == "2300 MHz before, 2300 during"
    assert not {"L2", "Conditions", "Empty kernel"} & told.keys()


def test_every_mark_is_said_first_and_in_yellow(show, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    outcome = show(noisy=["it is faster than an empty kernel", "the clock moved\x1b]0;by 3%"])
    assert outcome.lines[0].endswith("\x1b[1;33m  noisy\x1b[0m")
    assert "\x1b[1;33mnoisy\x1b[0m\x1b[33m: it is faster than an empty kernel\x1b[0m\n" in outcome.out
    assert "\x1b]" not in outcome.out
    assert outcome.out.index("the clock moved") < outcome.out.index("Latency:")


def test_no_mark_is_not_mentioned(show):
    assert "noisy" not in show().out


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
