"""Turns on a device that several Evaluators share: many may judge there at once, and one alone may time."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

_MOST_JUDGING = 64  # more than ever judge at once


class DeviceTurns:
    """Lets one kernel at a time be timed on a device, and nothing be judged there meanwhile. Threads share it.

    On a CPU nothing is built meanwhile either. Timing waits for running judgements, and they for it.
    """

    def __init__(self) -> None:
        self._places = threading.Semaphore(_MOST_JUDGING)
        self._entry = threading.Lock()
        """Held for a moment by those that judge, and by the one that times until it is done."""

    @contextmanager
    def judging(self) -> Iterator[None]:
        """Hold the device for judging, beside others that judge."""
        with self._entry:
            self._places.acquire()
        try:
            yield
        finally:
            self._places.release()

    @contextmanager
    def timing(self) -> Iterator[None]:
        """Hold the device alone."""
        with self._entry:
            for _ in range(_MOST_JUDGING):
                self._places.acquire()
            try:
                yield
            finally:
                self._places.release(_MOST_JUDGING)
