"""What a failed build is."""

from __future__ import annotations

import re
import traceback


class BuildError(Exception):
    """A Solution does not compile, load or import; the message is the compiler's or the interpreter's."""


_SAYS_WHAT_IS_WRONG = re.compile(r"\b(error|fatal)\b.*:|undefined reference|undefined symbol", re.IGNORECASE)


def lead_with_error(output: str) -> str:
    """A compiler's output behind the first line of it that says what is wrong, for who reads only one line."""
    lines = output.splitlines()
    found = next((line for line in lines if _SAYS_WHAT_IS_WRONG.search(line)), None)
    return output if found is None or found == lines[0] else f"{found}\n{output}"


# Kernels in Python DSLs compile at their first call, so what fails there may be the compilation.
_COMPILER_FOLDERS = ("/triton/compiler/", "/tilelang/engine/", "/tilelang/jit/", "/torch/_inductor/")


def is_compile_error(error: BaseException) -> bool:
    """Whether an exception out of a call came from a compiler rather than from the kernel.

    What Triton's interpreter raises counts too: on a GPU only its compiler ever runs a kernel's Python.
    """
    if type(error).__module__ == "triton.runtime.errors":
        return True
    frames = traceback.extract_tb(error.__traceback__)
    return any(folder in frame.filename for frame in frames[-12:] for folder in _COMPILER_FOLDERS)
