"""Commands that choose among the Traces of a large file say what they say of a small one."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from fib_rmsnorm.analysis import loading
from fib_rmsnorm.analysis.trace_files import large_file
from support.command_line import cli_command, cli_environment
from support.paths import PUBLISHED
from support.trace_json import lines, trace

MEASURE = """\
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
"""
"""Of a process that has used little itself: a child begins with what its parent has in memory."""


@pytest.mark.parametrize(
    "command",
    [
        ["report", "--format", "csv"],
        ["report", "--json", "--batch-sizes", "8,512"],
        ["best", "--json", "--solutions", "*triton*,*cuda*"],
        ["history", "rmsnorm_cuda_*", "--json"],
        ["analyze", "--json", "--definitions", "rmsnorm_d4096"],
        ["report", "--solutions", "none"],
    ],
    ids=" ".join,
)
def test_a_large_file_is_reported_as_a_small_one(fib, monkeypatch, command):
    arguments = [*command, PUBLISHED]
    whole = fib(*arguments)
    monkeypatch.setattr(loading, "LARGE_BYTES", 0)
    assert fib(*arguments) == whole


def test_large_files_are_compared_as_small_ones(fib, tmp_path, monkeypatch):
    """The newest content has runs in two files, in one of which another content is the newest."""
    new = tmp_path / "new"
    new.mkdir()
    runs = [("aa", 1, 0.001), ("bb", 2, 0.002), ("cc", 3, 0.004), ("bb", 4, 0.003)]
    traces = [trace(sha=sha, timestamp=f"2026-01-0{day}T00:00:00Z", latency_ms=ms) for sha, day, ms in runs]
    (new / "a.jsonl").write_text(lines(*traces[:3]))
    (new / "b.jsonl").write_text(lines(*traces[3:]))
    whole = fib("compare", PUBLISHED, PUBLISHED), fib("compare", new / "a.jsonl", new, "--json")
    assert [each["new_ms"] for each in json.loads(whole[1].out)["comparisons"]] == [[0.002, 0.003]]
    monkeypatch.setattr(loading, "LARGE_BYTES", 0)
    assert (fib("compare", PUBLISHED, PUBLISHED), fib("compare", new / "a.jsonl", new, "--json")) == whole


@pytest.mark.endurance
def test_what_a_hundred_thousand_traces_take_of_the_memory_does_not_grow_with_them(tmp_path):
    """Beyond what a file that is read whole may take."""
    path = tmp_path / "traces.jsonl"
    body = lines(*(trace(f"kernel_{number % 50}_v1", batch=1 << number % 17) for number in range(1000)))
    path.write_text(body * 100)
    assert path.stat().st_size > loading.LARGE_BYTES
    command = [sys.executable, "-c", MEASURE, *cli_command("report", path, "--json")]
    found = subprocess.run(command, capture_output=True, text=True, env=cli_environment(), check=True)
    assert json.loads(found.stdout)["superseded"] == 100_000 - 850
    assert int(found.stderr) << 10 < 250 << 20


def test_of_a_large_file_only_the_traces_that_are_reported_are_decoded(fib, tmp_path, monkeypatch):
    """By their number, not by the time it takes: decoding is what takes it."""
    monkeypatch.setattr(loading, "LARGE_BYTES", 0)
    decoded, decode = [], large_file.decode
    monkeypatch.setattr(large_file, "decode", lambda *each: decoded.append(each) or decode(*each))
    path = tmp_path / "traces.jsonl"
    path.write_text(lines(*(trace(f"kernel_{number % 5}_v1", batch=1 << number % 17) for number in range(170))) * 10)
    found = json.loads(fib("report", path, "--json").out)
    assert found["superseded"] == 1700 - 85
    assert 85 <= len(decoded) <= 2 * 85
