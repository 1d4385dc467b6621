"""Lines about what a command goes on without, from far below whoever can print them."""

import warnings
from collections.abc import Callable

_tell: Callable[[str], None] | None = None
_told: set[str] = set()


def tell_notices(tell: Callable[[str], None]) -> None:
    """Have `tell` called with each line, instead of making it a warning of Python's; what was told may come again."""
    global _tell  # noqa: PLW0603 - one process has one stderr
    _tell = tell
    _told.clear()


def notice(line: str) -> None:
    """Tell a line once: a command may read the same file several times."""
    if line not in _told:
        _told.add(line)
        _tell(line) if _tell else warnings.warn(line, stacklevel=2)


def summarize_faults(faults: list[str]) -> str:
    """The first fault of a file, and how many more records of it were skipped."""
    more = f"; and {len(faults) - 1} more in this file" if len(faults) > 1 else ""
    return f"{faults[0]} (skipped{more})"
