"""What kernrl, an environment of OpenEnv, says of the wrong and the honest kernels, beside this package's verdicts.

    git clone https://github.com/meta-pytorch/OpenEnv && git -C OpenEnv checkout 685de411
    python experiments/compare_with_kernrl.py --openenv OpenEnv --output experiments/kernrl_verdicts.json

Needs a CUDA device, and of OpenEnv only `envs/kernrl/server/evaluator.py` and `profiler.py`. kernrl takes a file with
a class `Model`, which here builds and calls the kernel through flashinfer-bench, as it is. It allows 30 s for the
import, so kernels in CUDA and C++ are built before. Each verdict comes from a process of its own, several side by side
and without kernrl's profilers, which do not decide. Nothing confines the kernels but a time, a memory limit and a
scratch HOME: use a machine that may be lost. Every line printed is a result, so one that is cut short keeps its own.

The rates are of some honest kernels: by kernrl's evaluator in turn, without profilers and (of one kernel) with those
that its environment asks for; by a `KernelReward` in turn, and in one batch.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import types
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil
from compare_with_upstream import DEFINITION, VERDICT, Verdict, ask, help_to_compile, judge_by_ours, make_dataset

COMMIT = "685de411e5f77286b0fd94798d42c4467cf8a1bc"
BATCH = 32
PARTS = ["rates", "kernrl", "ours", "profilers"]
MEMORY_LIMIT_BYTES = 16 << 30
SAMPLE = ("keeps_its_last_output", "makes_inputs_contiguous", "scratch_in_place", "view_of_a_larger_buffer")
COPIES = 4
"""Of each kernel of the sample, in the batch."""

REFERENCE = """\
import torch

{source}

class Model(torch.nn.Module):
    def forward(self, x, weight, eps):
        return run(x, weight, eps)


def get_inputs():
    return [torch.randn({batch}, 4096, dtype=torch.float16), torch.randn(4096, dtype=torch.float16), 1e-6]


def get_init_inputs():
    return []
"""
SOLUTION = """\
import torch
from flashinfer_bench.compile import BuilderRegistry
from flashinfer_bench.data import Definition, Solution

RUN = BuilderRegistry.get_instance().build(
    Definition.model_validate_json({definition!r}), Solution.model_validate_json({solution!r})
)


class Model(torch.nn.Module):
    def forward(self, x, weight, eps):
        return RUN.call_value_returning(x, weight, eps)
"""


def limit_memory() -> None:
    """End this process's group once its children take more than the limit."""

    def watch() -> None:
        while True:
            with suppress(psutil.Error):
                children = psutil.Process().children(recursive=True)
                if sum(child.memory_info().rss for child in children) > MEMORY_LIMIT_BYTES:
                    os.killpg(0, signal.SIGKILL)
            time.sleep(0.5)

    threading.Thread(target=watch, daemon=True).start()


def judge_by_kernrl(openenv: Path, root: Path, name: str, *, profiled: bool, device: str) -> Verdict:
    """Run kernrl's evaluator on one Solution, in this process and those that it starts."""
    from flashinfer_bench.data import TraceSet

    limit_memory()
    server = types.ModuleType("server")  # without its __init__.py, which imports the rest of OpenEnv
    server.__path__ = [str(openenv / "envs" / "kernrl" / "server")]
    sys.modules["server"] = server
    evaluator = importlib.import_module("server.evaluator").LocalGPUEvaluator(
        device,
        **({} if profiled else dict.fromkeys(("enable_nsys", "enable_sanitizer", "enable_torch_profiler"), False)),
    )
    trace_set = TraceSet.from_path(str(root))
    definition, solution = trace_set.definitions[DEFINITION], trace_set.get_solution(name)
    code = SOLUTION.format(definition=definition.model_dump_json(), solution=solution.model_dump_json())
    if solution.spec.language.value in ("cuda", "cpp"):
        with suppress(subprocess.TimeoutExpired):
            subprocess.run([sys.executable, "-c", code], timeout=100, capture_output=True, check=False)
    result = evaluator.evaluate(code, REFERENCE.format(source=definition.reference, batch=BATCH))
    compiled, correctness, benchmark = result.compilation, result.correctness, result.benchmark
    error = compiled.error if not compiled.success else correctness.error or (benchmark and benchmark.error)
    if error and "imeout (" in error:
        status = "TIMEOUT"
    elif not compiled.success:
        status = "COMPILE_ERROR"
    elif error:
        status = "RUNTIME_ERROR"
    else:
        status = "PASSED" if correctness.correct else "INCORRECT_NUMERICAL"
    return {
        "status": status,
        **({"speedup": round(benchmark.speedup, 2)} if status == "PASSED" else {}),
        **({"error": error.splitlines()[0][:160]} if error else {}),
    }


def ask_kernrl(openenv: Path, root: Path, name: str, *options: str) -> Verdict:
    """The same in a process of its own, with a HOME of its own."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        command = (__file__, "--openenv", openenv, *options, "--kernel", root, name)
        return ask(*command, environment={"HOME": scratch, "TMPDIR": scratch})


def measure_rate(work: Callable[[Any], object], kernels: Iterable[Any], count: int) -> int:
    """Verdicts an hour, when each of these is judged in turn."""
    began = time.monotonic()
    for kernel in kernels:
        work(kernel)
    return round(3600 * count / (time.monotonic() - began))


def measure_ours(root: Path) -> dict[str, int]:
    """The rates of a KernelReward whose service has started."""
    from fib_rmsnorm import KernelReward, Service
    from support.kernels import read_kernels
    from support.registries import make_registry

    honest = read_kernels("honest")
    texts = [f"{honest[name].text}# {copy}\n" for copy in range(COPIES + 1) for name in SAMPLE]
    in_turn, batch = texts[: len(SAMPLE)], texts[len(SAMPLE) :]
    with Service(make_registry(root, 4096, [BATCH]), device="cuda:0") as service:
        reward = KernelReward(service, DEFINITION, batch_sizes=(BATCH,))
        found = reward.judge([honest["inference_mode"].text])
        rates = {
            "in turn": measure_rate(lambda text: found.extend(reward.judge([text])), in_turn, len(in_turn)),
            "in a batch": measure_rate(lambda texts: found.extend(reward.judge(texts)), [batch], len(batch)),
        }
    assert all(kernel.status == "PASSED" for kernel in found), [kernel.feedback for kernel in found]
    return rates


def report(found: dict[str, Any], key: str, name: str, value: dict[str, Any]) -> None:
    """Keep a result, and print it."""
    found.setdefault(key, {}).setdefault(name, {}).update(value)
    print(json.dumps({key: {name: value}}), flush=True)


def compare(openenv: Path, jobs: int, only: list[str], parts: list[str]) -> dict[str, Any]:
    """Both verdicts on every kernel, and both rates."""
    import torch

    found: dict[str, Any] = {
        "hardware": torch.cuda.get_device_name(),
        "libraries": {"kernrl": COMMIT, **{name: version(name) for name in ("flashinfer-bench", "torch", "triton")}},
        "definition": DEFINITION,
        "batch": BATCH,
        "profilers": ["torch.profiler", *filter(shutil.which, ("nsys", "compute-sanitizer", "cuobjdump"))],
    }
    print(json.dumps(found), flush=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        root = Path(folder) / "dataset"
        os.environ["FIB_CACHE_PATH"] = os.environ["FIB_RMSNORM_CACHE"] = str(Path(folder) / "cache")
        help_to_compile()
        chosen = make_dataset(root, BATCH, [*only, *SAMPLE] if only else [])
        kernels = {solution: name for name, solution in chosen.items()}
        sample = [chosen[f"honest/{name}"] for name in SAMPLE]

        def judge(name: str) -> None:
            report(found, "kernels", kernels[name], {"kernrl": ask_kernrl(openenv, root, name)})

        def report_rate(whose: str, rates: dict[str, int]) -> None:
            report(found, "verdicts an hour", whose, rates)

        if "rates" in parts:
            report_rate("ours", measure_ours(Path(folder) / "reward"))
            rate = measure_rate(partial(ask_kernrl, openenv, root), sample, len(sample))
            report_rate("kernrl", {"in turn, without profilers": rate})
        if "kernrl" in parts:
            with ThreadPoolExecutor(jobs) as pool:
                rate = measure_rate(list, [pool.map(judge, kernels)], len(kernels))
            report_rate("kernrl", {f"{jobs} side by side": rate})
        if "ours" in parts:
            for name, verdict in judge_by_ours(root, "cuda:0"):
                report(found, "kernels", kernels[name], {"ours": verdict})
        if "profilers" in parts:
            rate = measure_rate(lambda name: ask_kernrl(openenv, root, name, "--profiled"), sample[:1], 1)
            report_rate("kernrl", {"in turn": rate})
    return found


def main() -> int:
    """Compare, or (for the processes that this starts) give one verdict of kernrl's."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--openenv", type=Path, required=True, help="a checkout of OpenEnv")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--jobs", type=int, default=14, help="processes of kernrl's side by side")
    parser.add_argument("--only", nargs="*", default=[], help="kernels")
    parser.add_argument("--parts", nargs="*", default=PARTS, choices=PARTS, help="of the comparison")
    parser.add_argument("--device", default="cuda:0", help=argparse.SUPPRESS)
    parser.add_argument("--profiled", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--kernel", nargs=2, metavar=("ROOT", "SOLUTION"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.kernel:
        root, name = Path(options.kernel[0]), options.kernel[1]
        verdict = judge_by_kernrl(options.openenv, root, name, profiled=options.profiled, device=options.device)
        print(VERDICT + json.dumps(verdict), flush=True)
        return 0
    found = compare(options.openenv, options.jobs, options.only, options.parts)
    if options.output:
        options.output.write_text(json.dumps(found, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
