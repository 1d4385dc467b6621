"""Ctrl-C."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

from fib_rmsnorm.garbage_collection import collector_off

INTERRUPTED = 130
_tidiers: list[Callable[[], object]] = []


def end_interrupted(hint: str = "") -> NoReturn:
    """Say so and end the process."""
    with suppress(OSError):
        sys.stdout.flush()
    _tidy()
    print(f"fib-rmsnorm: interrupted{hint}", file=sys.__stderr__, flush=True)  # past any bar's sys.stderr
    # Not sys.exit: if Ctrl-C met an import that runs generated code, the interpreter would die of SIGINT after all.
    os._exit(INTERRUPTED)


@contextmanager
def tidying(tidy: Callable[[], object]) -> Iterator[None]:
    """Call `tidy` if the process ends meanwhile without unwinding: of SIGTERM, or of Ctrl-C amid imports."""

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
    """For what Ctrl-C does not undo: it still ends the process, which says what can be done."""
    try:
        yield
    except KeyboardInterrupt:
        end_interrupted(hint)


@contextmanager
def importing() -> Iterator[None]:
    """For what takes seconds to import: faster, and Ctrl-C ends the process at once.

    A KeyboardInterrupt would be lost there if it met one of the import system's callbacks, which ignore exceptions.
    Nothing is written yet, and the process that forks workers ends with this one.
    """
    before = signal.signal(signal.SIGINT, lambda *_: end_interrupted())
    try:
        with collector_off():
            yield
    finally:
        signal.signal(signal.SIGINT, before)
