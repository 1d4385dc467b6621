"""Write many Traces, and measure what commands take that read them.

    python experiments/many_traces.py 1000000 traces.jsonl
    python experiments/many_traces.py 1000000 traces.jsonl --measure "report --json" "history *"

The Traces are the published ones again and again, each time as another version of its Solution with its own digest,
time, clock and latency, so that a report shows 40 versions of each; one in a hundred failed. `--measure` runs each
command on the file in the order given and prints its seconds and its largest memory.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from hashlib import sha256
from pathlib import Path
from typing import Any

PUBLISHED = Path(__file__).parents[1] / "traces"
VERSIONS = 40
START = datetime(2026, 1, 1, tzinfo=timezone.utc)


def main() -> None:
    """Write the file unless it is there, then measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("number", type=int)
    parser.add_argument("file", type=Path)
    parser.add_argument("--measure", nargs="*", default=[], metavar="COMMAND")
    given = parser.parse_args()
    if not given.file.exists():
        with given.file.open("w") as file:
            file.writelines(f"{json.dumps(each, separators=(',', ':'))}\n" for each in make(given.number))
    print("| command | CPU s | wall s | GB |\n|---|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as cache:
        for command in given.measure:
            cpu_s, wall_s, gigabytes = measure(command, given.file, Path(cache))
            print(f"| `{command}` | {cpu_s:.1f} | {wall_s:.1f} | {gigabytes:.2f} |", flush=True)


def make(number: int) -> Iterator[dict[str, Any]]:
    """So many Traces, always the same."""
    published = [json.loads(line) for path in sorted(PUBLISHED.rglob("*.jsonl")) for line in path.open()]
    chance = random.Random(1)
    for index in range(number):
        trace = published[index % len(published)]
        yield {**trace, "evaluation": _evaluate_again(trace, index, chance)}


def _evaluate_again(trace: dict[str, Any], index: int, chance: random.Random) -> dict[str, Any]:
    version = f"{trace['solution']} {chance.randrange(VERSIONS)}"
    timestamp = (START + timedelta(seconds=index)).isoformat()
    changed = {"timestamp": timestamp, "solution_sha256": sha256(version.encode()).hexdigest()}
    evaluation = {**trace["evaluation"], **changed}
    performance = evaluation["performance"]
    if performance is None or chance.random() < 0.01:
        return {**evaluation, "status": "RUNTIME_ERROR", "correctness": None, "performance": None}
    factor = chance.gauss(1, 0.01)
    times = {name: value * factor for name, value in performance.items() if name.startswith("latency_") and value}
    clocks = performance.get("clocks")
    if clocks and clocks.get("during_mhz"):
        times["clocks"] = {**clocks, "during_mhz": round(clocks["during_mhz"] * chance.uniform(0.995, 1), 1)}
    return {**evaluation, "performance": {**performance, **times}}


def measure(command: str, file: Path, cache: Path) -> tuple[float, float, float]:
    """The seconds of CPU and of wall time of a command and its processes, and the largest memory of one in GB.

    Raises CalledProcessError if it fails.
    """
    environment = {**os.environ, "FIB_RMSNORM_CACHE": str(cache)}
    started = time.monotonic()
    arguments = [sys.executable, "-m", "fib_rmsnorm", *shlex.split(command), str(file)]
    process = subprocess.Popen(arguments, env=environment, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise subprocess.CalledProcessError(os.waitstatus_to_exitcode(status), arguments)
    return used.ru_utime + used.ru_stime, time.monotonic() - started, used.ru_maxrss * 1024 / 1e9


if __name__ == "__main__":
    main()
