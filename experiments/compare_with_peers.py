"""What kernrl of OpenEnv and KernelGYM say of the wrong and the honest kernels, beside this package's verdicts.

    git clone https://github.com/meta-pytorch/OpenEnv && git -C OpenEnv checkout 685de411
    git clone https://github.com/hkust-nlp/KernelGYM && git -C KernelGYM checkout 3a84417f
    python experiments/compare_with_peers.py --kernrl OpenEnv --kernelgym KernelGYM --output peer_verdicts.json

Needs a CUDA device; nothing of theirs is installed. Of kernrl, `LocalGPUEvaluator` runs as it is, except that the
profilers are off, which do not decide. Of KernelGYM, `eval_kernel_against_ref` runs with its defaults for a task but
without its servers, its queue in Redis and its settings; its search for a decoy, which refuses all that is not Triton,
runs on kernels in Triton only.

Both take a file with a class, which here builds and calls the kernel through flashinfer-bench. kernrl allows 30 s for
its import, so kernels in CUDA are built before. Each verdict comes from a process of its own, several side by side.
Nothing confines the kernels but a time, a memory limit and a scratch HOME: use a machine that may be lost. Every line
printed is a result, so a run that is cut short keeps its own.

The rates are of some honest kernels: by kernrl in turn, without profilers and (one kernel) with those that its
environment asks for; by KernelGYM in turn, each in a new process, while its own workers take 100 kernels each; by a
`KernelReward` in turn, and in one batch.
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

COMMITS = {
    "kernrl": "685de411e5f77286b0fd94798d42c4467cf8a1bc",
    "KernelGYM": "3a84417f8c0efaadb215ef638b37d12e71ed20f3",
}
DEVICE = "cuda:0"
BATCH = 32
PARTS = ["rates", "ours", "kernrl", "kernelgym", "profilers"]  # ours first: what follows may harm the machine
PATIENCE_S = {"kernrl": 240.0, "kernelgym": 120.0}
"""kernrl has timeouts of its own, of 210 s together."""
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


ModelNew = Model
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


def add_package(name: str, folder: Path, **names: object) -> None:
    """Import the modules of a folder as a package's, without its own __init__.py, which imports much more."""
    package = types.ModuleType(name)
    package.__path__ = [str(folder)]
    vars(package).update(names)
    sys.modules[name] = package


def judge_by_kernrl(checkout: Path, reference: str, code: str, language: str, *, profiled: bool) -> Verdict:
    """Run kernrl's evaluator in this process and those that it starts."""
    add_package("server", checkout / "envs" / "kernrl" / "server")
    profilers = {} if profiled else dict.fromkeys(("enable_nsys", "enable_sanitizer", "enable_torch_profiler"), False)
    evaluator = importlib.import_module("server.evaluator").LocalGPUEvaluator(DEVICE, **profilers)
    if language == "cuda":
        with suppress(subprocess.TimeoutExpired):
            subprocess.run([sys.executable, "-c", code], timeout=100, capture_output=True, check=False)
    result = evaluator.evaluate(code, reference)
    compiled, correctness, benchmark = result.compilation, result.correctness, result.benchmark
    if not compiled.success:
        return _failed("COMPILE_ERROR", compiled.error)
    if error := correctness.error or (benchmark and benchmark.error):
        return _failed("RUNTIME_ERROR", error)
    if not correctness.correct:
        return {"status": "INCORRECT_NUMERICAL"}
    return {"status": "PASSED", "speedup": round(benchmark.speedup, 2)}


def judge_by_kernelgym(checkout: Path, reference: str, code: str, language: str, *, profiled: bool) -> Verdict:
    """Run KernelGYM's evaluation in this process."""
    add_package("kernelgym", checkout / "kernelgym")
    add_package("kernelgym.config", checkout, settings=types.SimpleNamespace())
    pipeline = importlib.import_module("kernelgym.toolkit.kernelbench.pipeline")
    is_triton = language == "triton"
    sample: dict[str, Any] = {"num_perf_trials": 100, "verbose": False, "device": 0}
    try:
        found = pipeline.eval_kernel_against_ref(
            reference,
            code,
            num_correct_trials=5,
            backend="triton" if is_triton else "cuda",
            enable_profiling=profiled,
            enable_triton_detection=is_triton,
            **sample,
        )
        baseline = pipeline.eval_reference_only(reference, **sample)
    except Exception as error:  # as its toolkit, which names a failure
        return _failed("RUNTIME_ERROR", repr(error))
    if found is None or not found.compiled:
        return _failed("COMPILE_ERROR", str(found and found.metadata.get("compilation_error")))
    if found.decoy_kernel:
        return {"status": "DECOY"}
    if not found.correctness:
        error = found.metadata.get("runtime_error")
        return _failed("RUNTIME_ERROR", str(error)) if error else {"status": "INCORRECT_NUMERICAL"}
    if found.runtime <= 0:
        return _failed("RUNTIME_ERROR", str(found.metadata.get("error_during_performance")))
    return {"status": "PASSED", "speedup": round(baseline.runtime / found.runtime, 2)}


def _failed(status: str, error: str) -> Verdict:
    return {"status": "TIMEOUT" if "imeout (" in error else status, "error": error.strip().partition("\n")[0][:160]}


def write_files(root: Path, name: str) -> tuple[str, str, str]:
    """The files of the reference and of a Solution of the dataset, and the Solution's language."""
    from flashinfer_bench.data import TraceSet

    trace_set = TraceSet.from_path(str(root))
    definition, solution = trace_set.definitions[DEFINITION], trace_set.get_solution(name)
    return (
        REFERENCE.format(source=definition.reference, batch=BATCH),
        SOLUTION.format(definition=definition.model_dump_json(), solution=solution.model_dump_json()),
        solution.spec.language.value,
    )


def ask_peer(peer: str, checkout: Path, root: Path, name: str, *options: str) -> Verdict:
    """The same in a process of its own, with a HOME of its own."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        command = (__file__, f"--{peer}", checkout, *options, "--judge", peer, root, name)
        verdict = ask(*command, environment={"HOME": scratch, "TMPDIR": scratch}, patience_s=PATIENCE_S[peer])
        for process in psutil.process_iter():  # daemons, which would disturb what follows
            with suppress(psutil.Error):
                if process.environ().get("TMPDIR") == scratch:
                    process.kill()
        return verdict


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
    with Service(make_registry(root, 4096, [BATCH]), device=DEVICE) as service:
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


def compare(checkouts: dict[str, Path], jobs: int, only: list[str], parts: list[str]) -> dict[str, Any]:
    """All verdicts on every kernel, and the rates."""
    import torch

    found: dict[str, Any] = {
        "hardware": torch.cuda.get_device_name(),
        "libraries": {**COMMITS, **{name: version(name) for name in ("flashinfer-bench", "torch", "triton")}},
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

        def ask_one(peer: str, name: str) -> None:
            report(found, "kernels", kernels[name], {peer: ask_peer(peer, checkouts[peer], root, name)})

        def report_rate(whose: str, how: str, rate: int) -> None:
            report(found, "verdicts an hour", whose, {how: rate})

        if "rates" in parts:
            report(found, "verdicts an hour", "ours", measure_ours(Path(folder) / "reward"))
            for peer, checkout in checkouts.items():
                rate = measure_rate(partial(ask_peer, peer, checkout, root), sample, len(sample))
                report_rate(peer, "in turn, without profilers", rate)
        if "ours" in parts:
            for name, verdict in judge_by_ours(root, DEVICE):
                report(found, "kernels", kernels[name], {"ours": verdict})
        for peer in [peer for peer in checkouts if peer in parts]:
            with ThreadPoolExecutor(jobs) as pool:
                rate = measure_rate(list, [pool.map(partial(ask_one, peer), kernels)], len(kernels))
            report_rate(peer, f"{jobs} side by side", rate)
        if "profilers" in parts:
            profiled = partial(ask_peer, "kernrl", checkouts["kernrl"], root, sample[0])
            report_rate("kernrl", "in turn", measure_rate(profiled, ["--profiled"], 1))
    return found


def main() -> int:
    """Compare, or (for the processes that this starts) give one verdict of a peer's."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernrl", type=Path, help="a checkout of OpenEnv")
    parser.add_argument("--kernelgym", type=Path, help="a checkout of KernelGYM")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--jobs", type=int, default=14, help="processes of a peer's side by side")
    parser.add_argument("--only", nargs="*", default=[], help="kernels")
    parser.add_argument("--parts", nargs="*", default=PARTS, choices=PARTS, help="of the comparison")
    parser.add_argument("--profiled", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--judge", nargs=3, metavar=("PEER", "ROOT", "SOLUTION"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    checkouts = {"kernrl": options.kernrl, "kernelgym": options.kernelgym}
    if options.judge:
        peer, root, name = options.judge
        limit_memory()
        judge = {"kernrl": judge_by_kernrl, "kernelgym": judge_by_kernelgym}[peer]
        verdict = judge(checkouts[peer], *write_files(Path(root), name), profiled=options.profiled)
        print(VERDICT + json.dumps(verdict), flush=True)
        return 0
    found = compare(checkouts, options.jobs, options.only, options.parts)
    if options.output:
        options.output.write_text(json.dumps(found, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
