from __future__ import annotations

import json
import re

from support.paths import PUBLISHED, REPOSITORY
from support.trace_json import lines, trace, upstream_trace

H200 = REPOSITORY / "docs" / "data" / "h200.jsonl"
BATCHES = (1, 8, 128, 4096, 65536)


def flat(outcome) -> str:
    return " ".join(outcome.out.split())


def test_the_published_traces_answer_the_four_questions(fib):
    said = flat(fib("analyze", PUBLISHED))
    assert "1.00 FLOP per byte at batch=65536. Counted: 4 operations an element" in said
    assert "The ridge point of this device is 20.0 FLOP per byte" in said
    assert "it is memory-bound, 20 times off the ridge" in said
    assert re.search(r"At batch=\d+, \d+% of the peak and \d+% of a copy of the same bytes", said)
    assert "nothing: fits in L2" in said and "what is written may stay in the cache" in said


def test_more_than_the_peak_is_explained(fib):
    """An H100 holds 52 MB in L2, and of 67 MB at 4096 rows half are written."""
    said = flat(fib("analyze", PUBLISHED))
    assert re.search(r"batch=4096 .* 1\d\d% +1\d\d% too high: L2 kept a part of the bytes batch=16384", said)
    assert "Of peak: over 100% where" in flat(fib("report", PUBLISHED))
    assert "Of peak: over 100% where" not in flat(fib("report", H200))


def test_json_has_the_numbers(fib):
    (section,) = json.loads(fib("analyze", PUBLISHED, "--json").out)
    assert section["ridge_flops_per_byte"] > 10
    assert section["workloads"][0]["bound_by"] == "launch"
    floor = section["scaling"][0]["floor_ms"]
    assert floor["low"] < floor["value"] < floor["high"]


def test_what_is_not_known_is_said(fib, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    theirs = upstream_trace()
    theirs["definition"] = "softmax"
    theirs["evaluation"]["environment"]["hardware"] = "Some device"
    path = tmp_path / "t.jsonl"
    path.write_text(lines(theirs))
    outcome = fib("analyze", path)
    assert outcome.code == 0
    assert outcome.out.count("nknown:") == 3


def test_without_a_peak_none_is_told(fib, tmp_path):
    path = tmp_path / "t.jsonl"
    made = trace(hardware="Some CPU", timer="cpu_clock", cold_l2=None)
    made["evaluation"]["performance"]["ceiling"]["peak_bandwidth_gb_per_s"] = None
    path.write_text(lines(made))
    told = flat(fib("analyze", path))
    assert "The peak is unknown" in told and "% of peak means" not in told
    assert "An empty call" in fib("report", path).out


def test_a_bandwidth_above_the_peak_is_doubted(fib, tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text(lines(*(trace(batch=batch, latency_ms=0.002 + batch * 1.6384e-6) for batch in BATCHES)))
    assert "the line's bandwidth is above the device's peak" in fib("analyze", path).out
