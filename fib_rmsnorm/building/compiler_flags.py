"""The flags of the C++ compiler for C++ Solutions."""

from __future__ import annotations

import hashlib
import re
from functools import cache as memoize
from pathlib import Path
from typing import TYPE_CHECKING

from fib_rmsnorm.languages import LANGUAGES

if TYPE_CHECKING:
    from fib_rmsnorm.schema import Solution

DEFAULT = ("-O3", "-march=native")
"""For a Solution that names none: what one would choose for a kernel on this machine."""
LINKED = {"-fopenmp", "-pthread"}
"""Flags that add a library, so the linker needs them too."""


def compiler_flags(solution: Solution) -> list[str] | None:
    """The flags with which a Solution is built; None for a language other than C++."""
    if not LANGUAGES[solution.spec.language.value].runs_on_host:
        return None
    return solution.spec.flags or list(DEFAULT)


def host_key(solution: Solution) -> str:
    """What `native` in a Solution's flags stands for, by which its build is cached; empty if no flag depends on it.

    Machines may share a cache, and a build for another processor could end in SIGILL.
    """
    flags = compiler_flags(solution) or []
    return _processor() if any(flag.endswith("=native") for flag in flags) else ""


@memoize
def _processor() -> str:
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    # The first processor's model and instruction sets, as x86 and Arm name them.
    lines = re.findall(r"^(?:model name|flags|CPU implementer|CPU part|Features)\s*:.*$", text, re.MULTILINE)
    return hashlib.sha256("\n".join(dict.fromkeys(lines)).encode()).hexdigest()[:16]
