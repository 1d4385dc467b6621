"""Consoles that are plain when piped, and respect NO_COLOR."""

from __future__ import annotations

import sys
from functools import cache

from rich.console import Console

# Rich wraps at 80 columns when it prints to a pipe; what reads a pipe wants whole lines, however long.
_PIPE_WIDTH = 1_000_000


@cache
def stdout() -> Console:
    """For results."""
    return _console(stderr=False)


@cache
def stderr() -> Console:
    """For progress and notes."""
    return _console(stderr=True)


def _console(*, stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    return Console(
        stderr=stderr,
        highlight=False,
        markup=False,
        soft_wrap=True,
        width=None if stream.isatty() else _PIPE_WIDTH,
    )
