"""Durations of kernels as ncu reads them."""

from __future__ import annotations

import csv
import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CALLS = 15

DURATION = "gpu__time_duration.sum"


def read_durations(script: str, *arguments: str, kernels: int, evict: bool) -> list[list[float]]:
    """Microseconds of `CALLS` calls of each of so many kernels, of a Python script that runs `profile_calls`.

    The caches are left to the script, if it evicts; else ncu flushes and invalidates them.
    """
    command = ["ncu", "--csv", "--page", "raw", "--print-units", "base", "--clock-control", "none"]
    command += ["--cache-control", "none" if evict else "all"]
    command += ["--profile-from-start", "off", "--metrics", DURATION]
    command += [sys.executable, script, *arguments]
    said = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout
    table = said[said.index('"ID"') :]
    rows = [row for row in csv.DictReader(io.StringIO(table)) if row["ID"]]  # the first has units and no ID
    times = [float(row[DURATION].replace(",", "")) / 1e3 for row in rows]
    if len(times) != CALLS * kernels:
        raise SystemExit(f"ncu saw {len(times)} kernels, not {CALLS * kernels}")
    return [times[first : first + CALLS] for first in range(0, len(times), CALLS)]


def profile_calls(
    calls: list[Callable[[], object]], *, evict: bool, after: Callable[[], object] = lambda: None
) -> None:
    """What runs below ncu: between the profiler's start and stop each call is one kernel; `after` is not profiled."""
    import torch

    from fib_rmsnorm.evaluation.timing.cuda_driver import L2Eviction

    profiler = torch.cuda.cudart()
    eviction = L2Eviction("cuda:0")
    for call in calls:
        for index in range(CALLS + 1):  # the first compiles
            if evict:
                eviction()
            torch.cuda.synchronize()
            if index:
                profiler.cudaProfilerStart()
            call()
            torch.cuda.synchronize()
            profiler.cudaProfilerStop()
            after()
