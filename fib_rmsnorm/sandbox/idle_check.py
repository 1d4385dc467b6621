"""What a worker does while nobody asks it for anything: threads that run on, processes that it left.

Seen from outside, so that nothing in the worker can hide it. The CPU time that a process takes while it should
be idle does not depend on how loaded the machine is: an honest one takes none.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from itertools import dropwhile
from pathlib import Path

import psutil

# Threads of OpenMP spin after a parallel region before they sleep: some milliseconds, or 200 (LLVM's and
# Intel's runtimes). Whoever still takes time after this long does not wait for anything.
_PATIENCE_S = 0.35
_LOOK_S = 0.015
_SHORT_LOOK_S = 0.002
_QUIET_LOOKS = 2  # in a row
_IDLE_SHARE = 0.05
_CLOCK_OF_PROCESS = 2  # CPUCLOCK_SCHED of the kernel's posix-timers.h
_RESOURCE_TRACKER = re.compile(r"from multiprocessing\.resource_tracker import main;main\(\d+\)")


def find_busy(pids: Collection[int]) -> dict[int, str]:
    """What is wrong with those of some idle processes that are not idle, or not alone: 30 ms if all are honest."""
    found = {pid: f"left a process running: {left}" for pid in pids if (left := _describe_left_behind(pid))}
    for pid, share in _measure_busy([pid for pid in pids if pid not in found]).items():
        found[pid] = f"its threads took {share:.0%} of a core while nobody called it"
    return found


def wait_for_quiet(pids: Collection[int]) -> None:
    """Wait until idle processes take no time from the one to be timed next, or have had time enough to end that.

    It takes 2 ms if none of them does.
    """
    _measure_busy(pids, _SHORT_LOOK_S, 1)


def _measure_busy(pids: Collection[int], look_s: float = _LOOK_S, quiet_looks: int = _QUIET_LOOKS) -> dict[int, float]:
    """The processes that go on taking CPU time, and how much: the share of a core."""
    started = time.monotonic()
    first = {pid: _cpu_seconds(pid) for pid in pids}
    quiet = dict.fromkeys(pids, 0)
    while quiet and time.monotonic() - started < _PATIENCE_S:
        before, at = {pid: _cpu_seconds(pid) for pid in quiet}, time.monotonic()
        time.sleep(look_s)
        allowed = _IDLE_SHARE * (time.monotonic() - at)
        looks = {pid: looks + 1 if _cpu_seconds(pid) - before[pid] < allowed else 0 for pid, looks in quiet.items()}
        # On a loaded machine, a thread that never waits may not get to run meanwhile.
        quiet = {pid: count for pid, count in looks.items() if count < quiet_looks or _has_runnable_thread(pid)}
    elapsed = time.monotonic() - started
    shares = {pid: (_cpu_seconds(pid) - first[pid]) / elapsed for pid in quiet}
    return {pid: share for pid, share in shares.items() if share > _IDLE_SHARE}


def _cpu_seconds(pid: int) -> float:
    """CPU time of all threads of a process, to the nanosecond where the system tells."""
    try:
        return time.clock_gettime((~pid << 3) | _CLOCK_OF_PROCESS)
    except OSError:
        with suppress(psutil.Error):
            return float(sum(psutil.Process(pid).cpu_times()[:2]))  # user and system
        return 0.0


def _has_runnable_thread(pid: int) -> bool:
    with suppress(OSError):
        for status in Path(f"/proc/{pid}/task").glob("*/stat"):
            with suppress(OSError):
                if status.read_text(errors="replace").rpartition(")")[2].split()[0] == "R":
                    return True
    return False


def _describe_left_behind(pid: int) -> str | None:
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        for child in process.children(recursive=True):
            with suppress(psutil.Error):
                if child.status() == psutil.STATUS_ZOMBIE:
                    continue
                words = _words_of(child)
                if words == process.cmdline():
                    return "a fork of itself"
                if not _is_helper(words):
                    return " ".join(words)[:200].strip() or child.name()
    return None


def _is_helper(words: list[str]) -> bool:
    """Whether a program is one that torch or Python starts once and keeps: its compile workers, its resource tracker.

    They are no strays, however busy: torch's take seconds to be ready. That an argument has their name is not enough.
    """
    arguments = list(dropwhile(lambda word: word.startswith("-") and word != "-c", words[1:]))
    if arguments[:1] == ["-c"]:
        return len(arguments) > 1 and bool(_RESOURCE_TRACKER.fullmatch(arguments[1]))
    return arguments[:1] in ([_compile_worker()], ["torch._inductor.compile_worker"])


@cache
def _compile_worker() -> str | None:
    torch = find_spec("torch")  # imports nothing
    folders = torch.submodule_search_locations if torch else None
    return str(Path(folders[0]) / "_inductor" / "compile_worker" / "__main__.py") if folders else None


def _words_of(process: psutil.Process) -> list[str]:
    """Its command line, which a program that has only just started lacks for a moment."""
    words: list[str] = process.cmdline()
    if not any(words):
        time.sleep(_LOOK_S)
        words = process.cmdline()
    return words
