"""Run jobs that ask processes in threads: what all of them find as it comes, and an end of all at once."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import TypeVar

from fib_rmsnorm.sandbox.process import StoppedError

Found = TypeVar("Found")


def run_in_threads(jobs: Sequence[Callable[[], Iterable[Found]]], stop: Callable[[], None]) -> Generator[Found]:
    """Run each job in a thread of its own and yield what they yield, as it comes.

    Closing the generator early, an exception in its user, or one in a job, calls `stop`, which has to end all processes
    that jobs wait for. A job that is stopped by it raises StoppedError.
    """
    found: queue.SimpleQueue[tuple[Found] | BaseException | None] = queue.SimpleQueue()
    threads = [threading.Thread(target=_run, args=(job, found), daemon=True) for job in jobs]
    for thread in threads:
        thread.start()
    try:
        running = len(threads)
        while running:
            item = found.get()
            if item is None:
                running -= 1
            elif isinstance(item, BaseException):
                raise item
            else:
                yield item[0]
    except BaseException:
        stop()  # so that the threads return at once
        raise
    finally:
        for thread in threads:
            thread.join()


def _run(job: Callable[[], Iterable[Found]], found: queue.SimpleQueue[tuple[Found] | BaseException | None]) -> None:
    try:
        for each in job():
            found.put((each,))
    except StoppedError:
        return
    except BaseException as error:
        found.put(error)
    finally:
        found.put(None)
