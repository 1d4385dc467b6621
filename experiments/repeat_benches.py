"""Repeat a bench, and count how often the intervals are right that compare two of its runs.

python experiments/repeat_benches.py FOLDER --runs 8 --device cpu --batch-sizes 8,32,128

Other options are those of `bench`. Writes FOLDER/1.jsonl and so on; --runs 0 only compares what lies there. A/A: a
kernel in one run and in another; each verdict but a tie is false. A/B: a kernel in one run and another kernel in
another; what all runs together say is taken for the truth. It prints how often the interval holds the truth, how many
differences of 10% or more are found, and how far runs lie from each other.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
from collections import defaultdict
from itertools import permutations
from pathlib import Path
from statistics import fmean

from fib_rmsnorm.analysis.difference import RunLatency, find_difference
from fib_rmsnorm.analysis.loading import load

Series = dict[str, list[RunLatency]]
"""The runs of each kernel, in their order."""


def bench(folder: Path, runs: int, options: list[str]) -> None:
    """Run a bench in a process of its own, again and again."""
    for number in range(1, runs + 1):
        output = folder / f"{number}.jsonl"
        command = [sys.executable, "-m", "fib_rmsnorm", "bench", "--output", str(output), *options]
        subprocess.run(command, check=False, stdout=subprocess.DEVNULL)


def read_runs(files: list[Path]) -> dict[tuple[str, str], Series]:
    """The latencies of each Workload: of the reference, and of each Solution that every run has timed."""
    found: dict[tuple[str, str], Series] = defaultdict(lambda: defaultdict(list))
    for file in files:
        seen = set()
        for record in load(file):
            workload = (record.definition, str(record.axes))
            if own := RunLatency.of(record):
                found[workload][record.solution].append(own)
            if workload not in seen and (reference := RunLatency.of_reference(record)):
                seen.add(workload)
                found[workload]["the reference"].append(reference)
    return {
        workload: {name: runs for name, runs in series.items() if len(runs) == len(files)}
        for workload, series in found.items()
    }


def centre(runs: list[RunLatency]) -> float:
    """The logarithm of what all runs together say."""
    return fmean(math.log(run.ms) for run in runs)


def compare_all(series: Series, count: dict[str, list[int]]) -> None:
    """Compare each run of each kernel with each other run of each kernel."""
    for old, new in ((old, new) for old in series for new in series):
        truth = math.exp(centre(series[new]) - centre(series[old]))
        for i, j in permutations(range(len(series[old])), 2):
            found = find_difference([series[old][i]], [series[new][j]])
            if old == new:
                count["A/A hold 1"].append(found.verdict == "tie")
            else:
                count["A/B hold the truth"].append(found.low <= truth <= found.high)
                if abs(math.log(truth)) >= math.log(1.1):
                    count["10% found"].append(found.verdict == ("slower" if truth > 1 else "faster"))


def main() -> None:
    """Bench, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=8)
    options, of_bench = parser.parse_known_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    bench(options.folder, options.runs, of_bench)
    count: dict[str, list[int]] = defaultdict(list)
    for (definition, axes), series in read_runs(sorted(options.folder.glob("*.jsonl"))).items():
        compare_all(series, count)
        for name, runs in series.items():
            scatter = math.sqrt(sum((math.log(run.ms) - centre(runs)) ** 2 for run in runs) / max(1, len(runs) - 1))
            print(f"{definition} {axes} {name}: {1e3 * math.exp(centre(runs)):.2f} us, runs scatter by {scatter:.2%}")
    for what, cases in count.items():
        print(f"{what}: {sum(cases)} of {len(cases)}, {sum(cases) / len(cases):.1%}")


if __name__ == "__main__":
    main()
