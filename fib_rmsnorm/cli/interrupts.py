"""Ctrl-C, and the one place that prints errors."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import takewhile
from typing import NoReturn, TextIO

from fib_rmsnorm.garbage_collection import collector_off

INTERRUPTED = 130
_tidiers: list[Callable[[], object]] = []


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


def end_interrupted(hint: str = "") -> NoReturn:
    """Print that the run was interrupted, and end the process."""
    with suppress(OSError):
        sys.stdout.flush()
    _tidy()
    print_error(f"interrupted{hint}", INTERRUPTED, sys.__stderr__)  # not sys.stderr, which a progress bar replaces
    # Not sys.exit: if Ctrl-C hit an import that runs generated code, the interpreter would still die of SIGINT.
    os._exit(INTERRUPTED)


@contextmanager
def tidying(tidy: Callable[[], object]) -> Iterator[None]:
    """Call `tidy` if the process ends inside without unwinding: by SIGTERM, or by Ctrl-C during imports."""

    def terminate(number: int, _: object) -> None:
        _tidy()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    before = signal.signal(signal.SIGTERM, terminate)
    _tidiers.append(tidy)
    try:
        yield
    finally:
        _tidiers.remove(tidy)
        signal.signal(signal.SIGTERM, before)


def _tidy() -> None:
    for tidy in _tidiers:
        with suppress(OSError):
            tidy()


@contextmanager
def hinting(hint: str) -> Iterator[None]:
    """On Ctrl-C, end the process and add `hint` to the message."""
    try:
        yield
    except KeyboardInterrupt:
        end_interrupted(hint)


@contextmanager
def importing() -> Iterator[None]:
    """Import faster, and let Ctrl-C end the process at once.

    The import system's callbacks ignore exceptions, so a KeyboardInterrupt could be lost in one of them. Ending at
    once is safe: nothing has been written, and the fork server ends with this process. A background job of a script
    ignores Ctrl-C, here too.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, lambda *_: end_interrupted())
    try:
        with collector_off():
            yield
    finally:
        signal.signal(signal.SIGINT, before)
