"""Where the tests and what they test lie."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).parents[1]
REPOSITORY = TESTS.parent
PUBLISHED = REPOSITORY / "traces" / "published"
"""Evidence that no bench changes. Tests read it, and never the folders beside it, which are whoever benched here's."""
