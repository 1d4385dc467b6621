"""`fib-rmsnorm legend` explains what the tables print."""

from __future__ import annotations

import json
import re

import pytest

from support.trace_json import lines, trace

NAMES = {"solution", "language", "workload", "place"}
"""Columns that say what they are."""


@pytest.mark.parametrize("command", ["report", "best"])
def test_every_column_of_a_table_is_in_the_legend_that_the_table_names(fib, tmp_path, command):
    path = tmp_path / "traces.jsonl"
    path.write_text(lines(trace("a"), trace("b", latency_ms=0.003)))
    shown = fib(command, path).lines
    assert shown[-1] == "What each word and column means: fib-rmsnorm legend"
    headings = [line for line in shown if re.match("solution|workload|place", line)]
    columns = {column for line in headings for column in re.split("  +", line)}
    assert len(columns) > 4
    assert columns - NAMES <= json.loads(fib("legend", "--json").out).keys()


def test_each_word_is_a_line(fib):
    outcome = fib("legend")
    assert outcome.code == 0
    words = json.loads(fib("legend", "--json").out)
    assert len(outcome.lines) == len(words)
    assert outcome.row("noisy", "interval").startswith("noisy  ")
