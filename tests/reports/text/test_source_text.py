"""`show`: sources on a terminal and piped."""

from __future__ import annotations

import re

from support.command_line import run_on_terminal
from support.full_registry import PYTHON, PYTHON_SOURCE


def test_piped_sources_are_plain_and_whole(fib, full_registry, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    outcome = fib("show", PYTHON)
    assert "\x1b" not in outcome.out
    assert f"\nkernel.py\n\n{PYTHON_SOURCE}" in outcome.out


def test_no_color_is_respected_where_colour_is_forced(fib, full_registry, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    coloured = fib("show", PYTHON).out
    assert "\x1b[" in coloured.partition("kernel.py")[2]
    monkeypatch.setenv("NO_COLOR", "1")
    plain = fib("show", PYTHON).out
    assert f"\n{PYTHON_SOURCE}" in plain
    assert "\x1b[3" not in plain and "\x1b[9" not in plain


def test_sources_are_highlighted_on_a_terminal(full_registry):
    source = run_on_terminal("show", PYTHON, cwd=full_registry.root).partition("kernel.py\x1b[0m")[2]
    assert "\x1b[" in source
    assert "rms_norm" in source
    assert not re.search(r"\x1b\[[\d;]*\b(34|9[0-7])\b", source)  # blue on black, and bright on white, nobody reads
