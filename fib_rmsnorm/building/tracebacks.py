"""What an exception out of a solution says: what and where in a line, then the traceback, without our own frames."""

from __future__ import annotations

import re
import traceback
from itertools import dropwhile

# Where `building` writes the sources of solutions in Python, and of those in C++ and CUDA.
_SOURCES = r"(?:fib_solution_[0-9a-f]+|native/[^/\"\n]+/sources)/"
_SOURCE_FILE = re.compile(rf".*/{_SOURCES}(.+)")
_FILE_LINE = re.compile(rf'File "[^"\n]*/{_SOURCES}')


def is_of_solution(error: BaseException) -> bool:
    """Whether it was raised by a line of a solution, or by what that called."""
    return any(map(_in_sources, traceback.extract_tb(error.__traceback__)))


def describe_exception(error: BaseException) -> str:
    """`ValueError: boo (kernel.py:12)`, with the traceback from the solution's first frame on below, if it has any."""
    told = traceback.TracebackException.from_exception(error)
    frames = list(dropwhile(lambda frame: not _in_sources(frame), told.stack))
    told.stack = traceback.StackSummary.from_list(frames)
    lines = "".join(told.format_exception_only()).splitlines()
    # Of a syntax error the place comes before it, indented.
    summary = next((line for line in lines if line and not line[0].isspace()), type(error).__name__)
    if not frames:
        return "\n".join(dict.fromkeys([summary, *_shorten("\n".join(lines)).splitlines()]))
    innermost = [frame for frame in frames if _in_sources(frame)][-1]
    return f"{summary} ({_in_sources(innermost)}:{innermost.lineno})\n{_shorten(''.join(told.format()))}".rstrip()


def _in_sources(frame: traceback.FrameSummary) -> str:
    """The path of a frame's file in the solution's sources; empty if it is none of these."""
    found = _SOURCE_FILE.fullmatch(frame.filename)
    return found[1] if found else ""


def _shorten(text: str) -> str:
    """With the paths that its author knows."""
    return _FILE_LINE.sub('File "', text)
