"""A file of many Traces takes little memory."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from fib_rmsnorm.analysis.decoding import DecodedTrace
from support.command_line import cli_command, cli_environment
from support.trace_json import lines, trace

MEASURE = """\
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
"""
"""Of a process that has used little itself: a child begins with what its parent has in memory."""


@pytest.mark.endurance
def test_what_a_hundred_thousand_traces_take_of_the_memory_does_not_grow_with_them(tmp_path):
    """Beyond what a file that is read whole may take."""
    path = tmp_path / "traces.jsonl"
    body = lines(*(trace(f"kernel_{number % 50}_v1", batch=1 << number % 17) for number in range(1000)))
    path.write_text(body * 100)
    command = [sys.executable, "-c", MEASURE, *cli_command("report", path, "--json")]
    found = subprocess.run(command, capture_output=True, text=True, env=cli_environment(), check=True)
    assert json.loads(found.stdout)["superseded"] == 100_000 - 850
    assert int(found.stderr) << 10 < 250 << 20


def test_only_the_traces_that_are_reported_become_records(fib, tmp_path, monkeypatch):
    """By their number, not by the time that it takes."""
    flattened, flatten = [], DecodedTrace.flatten
    monkeypatch.setattr(DecodedTrace, "flatten", lambda each: flattened.append(each) or flatten(each))
    path = tmp_path / "traces.jsonl"
    path.write_text(lines(*(trace(f"kernel_{number % 5}_v1", batch=1 << number % 17) for number in range(170))) * 10)
    assert json.loads(fib("report", path, "--json").out)["superseded"] == 1700 - 85
    assert len(flattened) == 85
