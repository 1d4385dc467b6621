"""Where the tests and what they test lie."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).parents[1]
REPOSITORY = TESTS.parent
