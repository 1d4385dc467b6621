"""Ctrl-C."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

from fib_rmsnorm.cli.error_output import print_error
from fib_rmsnorm.garbage_collection import collector_off

INTERRUPTED = 130
_tidiers: list[Callable[[], object]] = []


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
