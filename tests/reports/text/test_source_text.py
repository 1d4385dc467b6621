"""`show`: sources on a terminal and piped."""

from __future__ import annotations

from support.full_registry import PYTHON, PYTHON_SOURCE


def test_piped_sources_are_plain_and_whole(fib, full_registry, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    outcome = fib("show", PYTHON)
    assert "\x1b" not in outcome.out
    assert f"\nkernel.py\n\n{PYTHON_SOURCE}" in outcome.out
