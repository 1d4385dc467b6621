"""Evaluate all wrong and all honest kernels again and again, and count verdicts that are not what they must be.

python experiments/repeat_verdicts.py --runs 20 [--device cuda:0]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]


def run_once(folder: Path, device: str) -> Counter[str]:
    """Evaluate everything once; count what passes that must not, what fails that must not, and other surprises."""
    import evaluation.test_honest_kernels as honest
    import support.wrong_kernels as wrong

    kind = device.partition(":")[0]
    count = Counter({"evaluations": 0, "wrong passed": 0, "wrong otherwise": 0, "honest failed": 0})
    outcome = wrong.evaluate_all(folder / "wrong", wrong.kernels_for(kind), device)
    for (name, batch), evaluation in outcome.evaluations.items():
        count["evaluations"] += 1
        try:
            wrong.assert_expected(evaluation, wrong.EXPECTED[name].on(kind))
        except AssertionError:
            count["wrong passed" if evaluation.status.value == "PASSED" else "wrong otherwise"] += 1
            print(f"  {name} at batch {batch}: {evaluation.status.value}: {evaluation.log[:300]!r}", flush=True)
    names = honest.NAMES if kind == "cpu" else honest.NAMES_ON_CUDA
    for (name, batch), evaluation in honest.evaluate_all(folder / "honest", names, device).items():
        count["evaluations"] += 1
        if evaluation.status.value != "PASSED":
            count["honest failed"] += 1
            print(f"  {name} at batch {batch}: {evaluation.status.value}: {evaluation.log[:300]!r}", flush=True)
    return count


def main() -> int:
    """Repeat, and sum up."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    total: Counter[str] = Counter()
    for run in range(1, options.runs + 1):
        started = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            found = run_once(Path(folder), options.device)
        total.update(found)
        print(f"run {run}: {describe(found)}; {time.monotonic() - started:.0f} s", flush=True)
    print(f"all {options.runs} runs: {describe(total)}")
    return 1 if sum(total.values()) > total["evaluations"] else 0


def describe(count: Counter[str]) -> str:
    """In words."""
    return ", ".join(f"{number} {what}" for what, number in count.items())


if __name__ == "__main__":
    sys.exit(main())
