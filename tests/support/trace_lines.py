"""Lines of files of Traces, good and odd ones as any program may write them, and what may happen to a file."""

from __future__ import annotations

import json
import os
from pathlib import Path

from hypothesis import strategies as st

from support.trace_json import trace, upstream_trace

TIMES = ["2026-01-02T03:04:05+00:00", "2026-01-02T03:04:06+00:00", "2026-01-02T03:04:06Z", "é"]


def line(**changes) -> bytes:
    return json.dumps(trace(**changes)).encode() + b"\n"


CHOICES = {
    "solution": ["fast_v1", "slow_v1"],
    "batch": [1, 8],
    "latency_ms": [None, 0.002, 0.003],
    "hardware": ["NVIDIA H200", "a CPU"],
    "timestamp": TIMES,
    "sha": ["aa", "bb", None],
    "definition_sha": ["cc", "dd", None],
    "clock": [1980.0, 1979.5, 1530.0, 1e-7, None],
    "settings": [{}, {"num_trials": 9}],
    "timer": ["cupti", "cpu_clock", None],
    "cold_l2": [True, False, None],
}
plain_lines = st.builds(line, **{name: st.sampled_from(values) for name, values in CHOICES.items()})


def written(found, how: str) -> str:
    """The same as JSON that another program may write."""
    if not isinstance(found, dict):
        return json.dumps(found)
    members = [(json.dumps(key), written(value, how)) for key, value in found.items()]
    match how:
        case "escaped":
            members = [
                ('"' + "".join(f"\\u{ord(each):04x}" for each in key) + '"', written(value, how))
                for key, value in found.items()
            ]
        case "reversed":
            members.reverse()
        case "more" if not {"definition", "status", "timer", "copy_ms"}.isdisjoint(found):
            # unknown ones, of which some look as if they were known
            members.insert(0, ('"latency"', '{"latency_ms": [1e400, "\\"}"], "definition": {}}'))
            members.append(('"Status"', '"\\u0000"'))
        case "twice":
            members = [*([('"timer"', '"another"')] if "timer" in found else []), *members, *members]
    gap = " \t" if how == "spaced" else ""
    return "{" + gap + f"{gap},{gap}".join(f"{key}{gap}:{gap}{value}" for key, value in members) + gap + "}"


def write_otherwise(data: bytes, how: str) -> bytes:
    return written(json.loads(data), how).encode() + b"\n"


WRITTEN = ("escaped", "reversed", "more", "twice", "spaced")
good_lines = plain_lines | st.builds(write_otherwise, plain_lines, st.sampled_from(WRITTEN))
odd_lines = st.sampled_from(
    [
        b"\n",
        b"[]\n",
        b'{"definition": "r\n',
        b"\xff\xfe\n",
        b"[" * 2000 + b"\n",
        json.dumps(upstream_trace(solution=None)).encode() + b"\n",
        json.dumps(upstream_trace(solution="nul\0nul")).encode() + b"\n",
        json.dumps(upstream_trace(solution="\ud800")).encode() + b"\n",
        line(samples="many"),
        line(noisy=[1]),
        line(latency_ms=-1.0),
        line(ceiling={"copy_ms": {}}),
        line()[:-40] + line(),
        line().replace(b"PASSED", b"PASS\xff"),
        line().replace(b'"samples": 200', b'"samples": 2e2'),
        line().replace(b'"trials": 4', b'"trials": 04'),
        line(host_overhead_us=float("inf")),
    ]
)
some_lines = st.lists(good_lines | odd_lines, min_size=1, max_size=8).map(b"".join)
changes = st.one_of(
    st.tuples(st.just("append"), some_lines),
    st.tuples(st.just("tear"), st.integers(1, 3000)),
    st.tuples(st.just("alter"), st.integers(0, 30)),
    st.tuples(st.just("replace"), some_lines),
)


def change(path: Path, how: str, what) -> None:
    data = path.read_bytes()
    match how:
        case "append":
            with path.open("ab") as file:
                file.write(what)
        case "tear":  # as a full disk leaves it, and as its repair does
            os.truncate(path, max(0, len(data) - what))
        case "alter":  # in place, with the same size
            rows = data.splitlines(keepends=True)
            at = what % max(1, len(rows))
            if rows:
                rows[at] = rows[at].replace(b"PASSED", b"FAILED").replace(b"fast_v1", b"slow_v1")
            with path.open("r+b") as file:
                file.write(b"".join(rows))
        case "replace":
            path.with_suffix(".new").write_bytes(what)
            path.with_suffix(".new").replace(path)
