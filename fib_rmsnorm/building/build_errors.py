"""The error of a failed build, and how to recognise one."""

from __future__ import annotations

import re
import traceback

from fib_rmsnorm.languages import LANGUAGES


class BuildError(Exception):
    """A Solution does not compile, load or import. The message comes from the compiler or the interpreter."""


_SAYS_WHAT_IS_WRONG = re.compile(r"\b(error|fatal)\b.*:|undefined reference|undefined symbol", re.IGNORECASE)


def lead_with_error(output: str) -> str:
    """Put a copy of the first line with an error before a compiler's output, for readers that show only one line."""
    lines = output.splitlines()
    found = next((line for line in lines if _SAYS_WHAT_IS_WRONG.search(line)), None)
    return output if found is None or found == lines[0] else f"{found}\n{output}"


# Kernels in Python DSLs compile at their first call, so an exception there may come from the compiler.
_COMPILER_FOLDERS = (
    "/torch/_inductor/",
    *(folder for language in LANGUAGES.values() for folder in language.compiler_folders),
)


def is_compile_error(error: BaseException) -> bool:
    """Whether a call's exception came from a compiler rather than from the kernel.

    Exceptions of Triton's interpreter count too: on a GPU, only the compiler runs a kernel's Python.
    """
    if type(error).__module__ == "triton.runtime.errors":
        return True
    frames = traceback.extract_tb(error.__traceback__)
    return any(folder in frame.filename for frame in frames[-12:] for folder in _COMPILER_FOLDERS)
