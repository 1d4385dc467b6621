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
    place = _find_place(error, frames)
    if not frames:
        below = [line for line in _shorten("\n".join(lines)).splitlines() if line != summary]
        return "\n".join([f"{summary}{place}", *below])
    return f"{summary}{place}\n{_shorten(''.join(told.format()))}".rstrip()


def _find_place(error: BaseException, frames: list[traceback.FrameSummary]) -> str:
    """The file and line of an error, in brackets: of a syntax error where it is, not where it is imported."""
    if isinstance(error, SyntaxError) and (path := _path_in_sources(error.filename or "")):
        return f" ({path}:{error.lineno})"
    mine = [frame for frame in frames if _in_sources(frame)]
    return f" ({_in_sources(mine[-1])}:{mine[-1].lineno})" if mine else ""


def _in_sources(frame: traceback.FrameSummary) -> str:
    """The path of a frame's file within the Solution's sources; empty if the file is not one of them."""
    return _path_in_sources(frame.filename)


def _path_in_sources(filename: str) -> str:
    found = _SOURCE_FILE.fullmatch(filename)
    return found[1] if found else ""


def _shorten(text: str) -> str:
    """Shorten the paths of sources to those that the author knows."""
    return _FILE_LINE.sub('File "', text)
