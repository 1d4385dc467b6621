"""The one place that prints errors."""

from __future__ import annotations

import sys
from itertools import takewhile
from typing import TextIO


def print_error(message: str, exit_code: int, stream: TextIO | None = None, paste: str = "") -> None:
    """Print an error as one line on stderr: for --json as an object, so that stdout holds nothing but results.

    Lines of code to paste are printed below, between empty lines.
    """
    from fib_rmsnorm.reports.text.control_characters import harmless

    line = " ".join(message.split())
    if "--json" in takewhile(lambda word: word != "--", sys.argv[1:]):
        from json import dumps

        line = dumps({"error": line, "exit_code": exit_code, **({"paste": paste} if paste else {})})
    else:
        line = harmless(f"fib-rmsnorm: {line}" + (f"\n\n{paste}\n" if paste else ""))
    print(line, file=stream or sys.stderr, flush=True)
