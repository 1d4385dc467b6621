"""What flashinfer-bench's own evaluator says of the wrong kernels, beside what this one says: a JSON file.

    python experiments/compare_with_upstream.py --output experiments/upstream_verdicts.json

Needs a CUDA device, since flashinfer-bench evaluates nowhere else, and takes some minutes: each of its verdicts comes
from a process of its own, because one wrong kernel can spoil its verdicts on others. Several run side by side, so
latencies mean nothing and none is kept; a speedup is kept for its size, where a cheat claims one.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

DEFINITION = "rmsnorm_d4096"
KINDS = ("wrong", "honest")
TIMEOUT_S = 180  # several build side by side
PATIENCE_S = 240  # for a process that ignores its own timeout
VERDICT = "verdict: "

Verdict = dict[str, Any]


def make_dataset(root: Path, batch: int, only: list[str]) -> dict[str, str]:
    """A dataset of the kernels that are made for a GPU; returns the names of their Solutions, by `kind/kernel`."""
    from support.kernels import add_kernels, read_kernels
    from support.registries import make_registry

    registry = make_registry(root, 4096, [batch])
    chosen = {}
    for kind in KINDS:
        kernels = [
            kernel
            for name, kernel in read_kernels(kind).items()
            if "cuda" in kernel.target_hardware and (not only or name in only)
        ]
        chosen |= {f"{kind}/{name}": solution.name for name, solution in add_kernels(registry, kernels).items()}
    return chosen


def help_to_compile() -> None:
    """What our builds find by themselves, for upstream's: a failed build is to be the kernel's fault."""
    from fib_rmsnorm.building.native import find_cuda_home

    if home := find_cuda_home():
        os.environ["CUDA_HOME"] = str(home)
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])


def judge_by_upstream(root: Path, solution: str) -> Verdict:
    """Run flashinfer-bench on one Solution, in this process and those that it starts."""
    from flashinfer_bench.bench import Benchmark, BenchmarkConfig
    from flashinfer_bench.data import TraceSet

    config = BenchmarkConfig(solutions=[solution], timeout_seconds=TIMEOUT_S, log_dir=tempfile.mkdtemp())
    benchmark = Benchmark(TraceSet.from_path(str(root)), config)
    traces = [trace for found in benchmark.run_all(dump_traces=False).traces.values() for trace in found]
    if not traces:
        return {"status": None}
    (trace,) = traces
    performance = trace.evaluation.performance
    return {
        "status": trace.evaluation.status.value,
        **({"speedup": round(performance.speedup_factor, 2)} if performance else {}),
    }


def ask(*command: str | Path, environment: dict[str, str] | None = None, patience_s: float = PATIENCE_S) -> Verdict:
    """The verdict that a Python script prints, in a process of its own, ended with all that it started."""
    process = subprocess.Popen(
        [sys.executable, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
        env={**os.environ, **(environment or {})},
    )
    try:
        text, _ = process.communicate(timeout=patience_s)
    except subprocess.TimeoutExpired:
        text = ""
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    verdicts = [line for line in text.splitlines() if line.startswith(VERDICT)]
    if not verdicts:
        print(f"{command[-1]}: no verdict; its last words: {text[-300:]!r}", file=sys.stderr)
        return {"status": None}
    found: Verdict = json.loads(verdicts[-1].removeprefix(VERDICT))
    return found


def judge_by_ours(root: Path, device: str) -> Iterator[tuple[str, Verdict]]:
    """Evaluate all Solutions of the dataset here; yields their names with the verdicts."""
    from fib_rmsnorm.evaluation.bench import BenchOptions, bench
    from fib_rmsnorm.evaluation.scheduler import Evaluated
    from fib_rmsnorm.registry import Registry
    from fib_rmsnorm.schema import Settings

    settings = Settings(warmup_runs=2, iterations=10, num_trials=2)
    for event in bench(Registry(root), BenchOptions(settings=settings, device=device, timeout_s=TIMEOUT_S)):
        if isinstance(event, Evaluated) and event.trace.evaluation:
            evaluation = event.trace.evaluation
            performance = evaluation.performance
            verdict = {
                "status": evaluation.status.value,
                **({"speedup": round(performance.speedup_factor, 2)} if performance else {}),
                **({"noisy": performance.noisy} if performance and performance.noisy else {}),
            }
            if not performance:
                print(f"{event.trace.solution}: {evaluation.status.value}: {evaluation.log[-300:]!r}", file=sys.stderr)
            yield str(event.trace.solution), verdict


def compare(batch: int, jobs: int, only: list[str]) -> dict[str, Any]:
    """Both verdicts on every kernel."""
    import torch

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "dataset"
        os.environ["FIB_CACHE_PATH"] = os.environ["FIB_RMSNORM_CACHE"] = str(Path(folder) / "cache")
        help_to_compile()
        chosen = make_dataset(root, batch, only)
        ours = dict(judge_by_ours(root, "cuda:0"))
        with ThreadPoolExecutor(jobs) as pool:
            asked = pool.map(lambda name: ask(__file__, "--upstream", root, name), chosen.values())
            theirs = dict(zip(chosen, asked, strict=True))
    return {
        "hardware": torch.cuda.get_device_name(),
        "libraries": {name: version(name) for name in ("flashinfer-bench", "torch", "triton")},
        "definition": DEFINITION,
        "batch": batch,
        "kernels": {name: {"upstream": theirs[name], "ours": ours.get(chosen[name])} for name in chosen},
    }


def main() -> int:
    """Compare, or (for the processes that this starts) give one verdict of upstream's."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--jobs", type=int, default=12, help="processes of upstream's side by side")
    parser.add_argument("--only", nargs="*", default=[], help="kernels")
    parser.add_argument("--upstream", nargs=2, metavar=("ROOT", "SOLUTION"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    import torch

    if not torch.cuda.is_available():
        print("flashinfer-bench evaluates only where there is a CUDA device, and here is none", file=sys.stderr)
        return 2
    if options.upstream:
        print(VERDICT + json.dumps(judge_by_upstream(Path(options.upstream[0]), options.upstream[1])), flush=True)
        return 0
    text = json.dumps(compare(options.batch, options.jobs, options.only), indent=2) + "\n"
    if options.output:
        options.output.write_text(text, encoding="utf-8")
    else:
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
