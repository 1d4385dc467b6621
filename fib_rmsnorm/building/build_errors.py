"""The error of a failed build, how to recognise one, and how to describe a Solution's exceptions."""

import re
import traceback
from itertools import dropwhile

from fib_rmsnorm.languages import KERNEL_LANGUAGES


class BuildError(Exception):
    """A Solution does not compile, load or import. The message comes from the compiler or the interpreter."""


# The folders to which `building` writes Python sources, and C++ and CUDA sources.
_SOURCES = r"(?:fib_solution_[0-9a-f]+|native/(?:[^/\"\n]+/){1,2}sources)/"
_SOURCE_FILE = re.compile(rf".*/{_SOURCES}(.+)")
_FILE_LINE = re.compile(rf'File "[^"\n]*/{_SOURCES}')
_LACKS_A_HEADER = re.compile(r"error: \S+: No such file or directory")
_SAYS_WHAT_IS_WRONG = re.compile(r"\b(error|fatal)\b.*:|undefined reference|undefined symbol", re.IGNORECASE)


def lead_with_error(output: str) -> str:
    """Put a copy of the first line with an error before a compiler's output, for readers that show only one line."""
    lines = output.splitlines()
    found = next((line for line in lines if _SAYS_WHAT_IS_WRONG.search(line)), None)
    if _LACKS_A_HEADER.search(found or ""):
        found = f"{found}; put it in the kernel's folder, and include it from there in quotes, so that it travels"
    return output if found is None or found == lines[0] else f"{found}\n{output}"


# Kernels in Python DSLs compile at their first call, so an exception there may come from the compiler.
_COMPILER_FOLDERS = (
    "/torch/_inductor/",
    *(folder for language in KERNEL_LANGUAGES.values() for folder in language.compiler_folders),
)


def is_compile_error(error: BaseException) -> bool:
    """Whether a call's exception came from a compiler rather than from the kernel.

    Exceptions of Triton's interpreter count too: on a GPU, only the compiler runs a kernel's Python.
    """
    if type(error).__module__ == "triton.runtime.errors":
        return True
    frames = traceback.extract_tb(error.__traceback__)
    return any(folder in frame.filename for frame in frames[-12:] for folder in _COMPILER_FOLDERS)


def is_of_solution(error: BaseException) -> bool:
    """Whether a Solution's code raised the error, directly or in a function that it called."""
    return any(_path_in_sources(frame.filename) for frame in traceback.extract_tb(error.__traceback__))


def describe_exception(error: BaseException) -> str:
    """Return `ValueError: boo (kernel.py:12)`, followed by the traceback from the Solution's first frame on.

    Paths of sources are shortened to those that the author knows.
    """
    told = traceback.TracebackException.from_exception(error)
    frames = list(dropwhile(lambda frame: not _path_in_sources(frame.filename), told.stack))
    told.stack = traceback.StackSummary.from_list(frames)
    lines = "".join(told.format_exception_only()).splitlines()
    # A syntax error is preceded by its place, which is indented.
    summary = next((line for line in lines if line and not line[0].isspace()), type(error).__name__)
    place = _find_place(error, frames)
    if not frames:
        others = [line for line in _FILE_LINE.sub('File "', "\n".join(lines)).splitlines() if line != summary]
        return "\n".join([f"{summary}{place}", *others])
    below = _FILE_LINE.sub('File "', "".join(told.format()))
    return f"{summary}{place}\n{below}".rstrip()


def _find_place(error: BaseException, frames: list[traceback.FrameSummary]) -> str:
    """The file and line of an error, in brackets; for a syntax error its own place, not that of the import."""
    if isinstance(error, SyntaxError) and (path := _path_in_sources(error.filename or "")):
        return f" ({path}:{error.lineno})"
    mine = [(path, frame.lineno) for frame in frames if (path := _path_in_sources(frame.filename))]
    return " ({}:{})".format(*mine[-1]) if mine else ""


def _path_in_sources(filename: str) -> str:
    """The path of a file within the Solution's sources; empty if it is not one of them."""
    found = _SOURCE_FILE.fullmatch(filename)
    return found[1] if found else ""
