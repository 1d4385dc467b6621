"""Describe a Solution's exception: one line with the error and its place, then the traceback without our frames."""

from __future__ import annotations

import re
import traceback
from itertools import dropwhile

# The folders to which `building` writes Python sources, and C++ and CUDA sources.
_SOURCES = r"(?:fib_solution_[0-9a-f]+|native/[^/\"\n]+/sources)/"
_SOURCE_FILE = re.compile(rf".*/{_SOURCES}(.+)")
_FILE_LINE = re.compile(rf'File "[^"\n]*/{_SOURCES}')


def is_of_solution(error: BaseException) -> bool:
    """Whether a Solution's code raised the error, directly or in a function that it called."""
    return any(map(_in_sources, traceback.extract_tb(error.__traceback__)))


def describe_exception(error: BaseException) -> str:
    """Return `ValueError: boo (kernel.py:12)`, followed by the traceback from the Solution's first frame on."""
    told = traceback.TracebackException.from_exception(error)
    frames = list(dropwhile(lambda frame: not _in_sources(frame), told.stack))
    told.stack = traceback.StackSummary.from_list(frames)
    lines = "".join(told.format_exception_only()).splitlines()
    # A syntax error is preceded by its place, which is indented.
    summary = next((line for line in lines if line and not line[0].isspace()), type(error).__name__)
    if not frames:
        return "\n".join(dict.fromkeys([summary, *_shorten("\n".join(lines)).splitlines()]))
    innermost = [frame for frame in frames if _in_sources(frame)][-1]
    return f"{summary} ({_in_sources(innermost)}:{innermost.lineno})\n{_shorten(''.join(told.format()))}".rstrip()


def _in_sources(frame: traceback.FrameSummary) -> str:
    """The path of a frame's file within the Solution's sources; empty if the file is not one of them."""
    found = _SOURCE_FILE.fullmatch(frame.filename)
    return found[1] if found else ""


def _shorten(text: str) -> str:
    """Shorten the paths of sources to those that the author knows."""
    return _FILE_LINE.sub('File "', text)
