"""What independent clocks say of the kernels, beside what this tool and flashinfer-bench say: a JSON file.

    python tools/cross_check_timing.py --output docs/timing_h200.json

Needs a GPU with CUPTI, ncu and nvcc, and takes some minutes. Microseconds, for each solution and batch:

- `ours`: the medians of benches in processes of their own, one after the other;
- `upstream`: what flashinfer-bench records as latency;
- `ncu`: gpu__time_duration behind caches that ncu flushes and invalidates, less what ncu adds to an empty kernel (its
  own reading of one less CUPTI's); `ncu_evicted`: the same behind our eviction, with ncu leaving the caches alone;
- `graph`: the slope of a CUDA graph's time over its number of calls, which rotate over more memory than the cache
  holds; less the slope of a graph of empty kernels, plus CUPTI's empty kernel;
- `stamps`: from the first warp's start to the last warp's end by the GPU's clock, read inside the kernel, plus CUPTI's
  empty kernel for what lies before and behind; `stamped`: CUPTI's reading of the same kernel, which the stamps
  slow down (only the CUDA solution, whose source is patched for it).

The solution `copy` is torch's copy of x, for what the graphs show: their calls write back what those before wrote.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import under_ncu

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

DEFINITION = "rmsnorm_d4096"
STAMPED = "rmsnorm_cuda_vec16_v1"
STAMPED_KERNELS = ("rmsnorm_row", "rmsnorm_rows")
BATCHES = (1, 8, 32, 128, 512, 4096, 16384, 65536)
RUNS = 3
GRAPH_CALLS = 64
GRAPH_REPLAYS = 7
STAMP_CALLS = 60
COPY_CALLS = 200
ROTATED_BYTES = 192 << 20  # several times any L2
FEWEST_SETS = 2
COPY = "copy"

Figures = dict[str, dict[str, Any]]
Call = Callable[[], Any]


def key(solution: str, batch: int) -> str:
    """How a row of the figures is found."""
    return f"{solution}@{batch}"


def read_latencies(path: Path) -> dict[str, dict[str, Any]]:
    """Performance by row, from a JSON or JSONL file of Traces."""
    text = path.read_text()
    traces = json.loads(text) if path.suffix == ".json" else [json.loads(line) for line in text.splitlines()]
    return {
        key(t["solution"], t["workload"]["axes"]["batch"]): t["evaluation"]["performance"]
        for t in traces
        if t["evaluation"]["status"] == "PASSED"
    }


def run_ours(registry: Path, solutions: list[str], figures: Figures) -> float:
    """Bench several times, each in a process of its own; returns CUPTI's reading of an empty kernel."""
    empty = []
    for run in range(RUNS):
        output = registry / f"run{run}.json"
        command = [sys.executable, "-m", "fib_rmsnorm", "bench", "--root", registry, "--output", output]
        command += ["--solutions", ",".join(solutions), "--batch-sizes", ",".join(map(str, BATCHES))]
        subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
        for row, performance in read_latencies(output).items():
            figures.setdefault(row, {}).setdefault("ours", []).append(round(performance["latency_ms"] * 1e3, 3))
            figures[row].setdefault("clock_mhz", []).append((performance["clocks"] or {}).get("during_mhz"))
            if performance["ceiling"]:
                empty.append(performance["ceiling"]["empty_ms"] * 1e3)
            else:
                print(row, performance["suspect"])
    return median(empty)


def run_upstream(registry: Path, figures: Figures) -> None:
    """flashinfer-bench on the same dataset, by its defaults."""
    shutil.rmtree(registry / "traces", ignore_errors=True)
    start = "from flashinfer_bench.cli.main import cli; cli()"
    subprocess.run([sys.executable, "-c", start, "run", "--local", registry], check=True, cwd=registry)
    for path in (registry / "traces").rglob("*.jsonl"):
        for row, performance in read_latencies(path).items():
            if row in figures:
                figures[row]["upstream"] = round(performance["latency_ms"] * 1e3, 3)


def load(solution: str) -> tuple[Call, Any]:
    """The entry point of a registered Solution, and its Definition."""
    from fib_rmsnorm.evaluation.building import build_entry
    from fib_rmsnorm.evaluation.building.cache import cache_folder
    from fib_rmsnorm.registry import Registry

    registry = Registry(ROOT)
    found = registry.solutions()[solution]
    return build_entry(found, "cuda:0", cache_folder()), registry.definition(DEFINITION)


def make_calls(entry: Call, definition: Any, batch: int, sets: int) -> list[Call]:
    """Calls on as many sets of inputs and outputs of their own."""
    import torch

    from fib_rmsnorm.evaluation.inputs import generate_inputs
    from fib_rmsnorm.registry import generate_workloads

    (workload,) = generate_workloads(definition, [batch])
    calls = []
    for _ in range(sets):
        inputs = generate_inputs(definition, workload, "cuda:0")
        calls.append(partial(entry, *inputs.values(), torch.empty_like(inputs["x"])))
    return calls


def make_copies(definition: Any, batch: int, sets: int) -> list[Call]:
    """Copies of x, as `make_calls` makes calls."""
    import torch

    hidden = definition.const_axes["hidden"]
    pairs = [[torch.randn(batch, hidden, dtype=torch.float16, device="cuda:0"), torch.empty(0)] for _ in range(sets)]
    for pair in pairs:
        pair[1] = torch.empty_like(pair[0])
    return [partial(to.copy_, source) for source, to in pairs]


def empty_kernel() -> None:
    """Launch a kernel that does nothing, on the current stream."""
    import torch

    torch.cuda._sleep(0)


def measure_by_cupti(call: Call, calls: int) -> float:
    """Median in microseconds, with a cold cache, by our timer."""
    from fib_rmsnorm.evaluation.statistics import middle
    from fib_rmsnorm.evaluation.timing.cupti import Cupti

    timer = Cupti("cuda:0")
    timer.measure(lambda _: call, 10, cold=True, budget_s=60)
    samples = timer.measure(lambda _: call, calls, cold=True, budget_s=60)
    return 1e3 * middle([sample.span_ms for sample in samples], timer.tick_ms)


def profiled_child(solutions: list[str], *, evict: bool) -> None:
    """What runs below ncu."""
    calls: list[Call] = [empty_kernel]
    for solution in solutions:
        entry, definition = load(solution)
        calls += [make_calls(entry, definition, batch, 1)[0] for batch in BATCHES]
    under_ncu.profile_calls(calls, evict=evict)


def run_ncu(solutions: list[str], figures: Figures, empty_us: float, *, evict: bool) -> float:
    """Profile all solutions in one process; returns what ncu adds to an empty kernel."""
    options = ["--profiled", ",".join(solutions), *(["--evict"] if evict else [])]
    expected = ["empty", *(key(solution, batch) for solution in solutions for batch in BATCHES)]
    durations = under_ncu.read_durations(__file__, *options, kernels=len(expected), evict=evict)
    medians = {row: median(times) for row, times in zip(expected, durations, strict=True)}
    offset = medians.pop("empty") - empty_us
    for row, value in medians.items():
        figures[row]["ncu_evicted" if evict else "ncu"] = round(value - offset, 3)
    return offset


def graph_slope(calls: list[Call]) -> float:
    """Microseconds that one more call adds to a graph."""
    import torch

    lengths = [factor * max(GRAPH_CALLS, len(calls)) for factor in (1, 3)]
    times = []
    for length in lengths:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for index in range(length):
                calls[index % len(calls)]()
        samples = []
        for _ in range(GRAPH_REPLAYS):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            graph.replay()
            end.record()
            torch.cuda.synchronize()
            samples.append(begin.elapsed_time(end) * 1e3)
        times.append(median(samples))
    return (times[1] - times[0]) / (lengths[1] - lengths[0])


def run_graphs(solutions: list[str], figures: Figures, empty_us: float) -> float:
    """Slopes of graphs; returns that of empty kernels."""
    import torch

    from fib_rmsnorm.registry import bytes_moved, generate_workloads

    slope_of_empty = graph_slope([empty_kernel])
    for solution in (COPY, *solutions):
        entry, definition = load(STAMPED if solution == COPY else solution)
        for batch in BATCHES:
            (workload,) = generate_workloads(definition, [batch])
            sets = max(FEWEST_SETS, ROTATED_BYTES // bytes_moved(definition, workload))
            if solution == COPY:
                calls = make_copies(definition, batch, sets)
                figures[key(COPY, batch)] = {"ours": [round(measure_by_cupti(calls[0], COPY_CALLS), 3)]}
            else:
                calls = make_calls(entry, definition, batch, sets)
                calls[0]()  # compiles outside of the graph
            figures[key(solution, batch)]["graph"] = round(graph_slope(calls) - slope_of_empty + empty_us, 3)
            del calls
            torch.cuda.empty_cache()
    return slope_of_empty


STAMP_DECLARATIONS = """
constexpr int64_t MOST_STAMPS = 1 << 22;
__device__ unsigned long long stamps[2 * MOST_STAMPS];
__device__ unsigned long long now() {
  unsigned long long time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time) :: "memory");
  return time;
}
"""
STAMP_BEGIN = "  const unsigned long long began = now();\n"
STAMP_END = """\
  __syncwarp();
  const int thread = threadIdx.x + threadIdx.y * blockDim.x;
  if (thread % WARP == 0) {
    const int64_t warp = blockIdx.x * ((blockDim.x * blockDim.y + WARP - 1) / WARP) + thread / WARP;
    if (warp < MOST_STAMPS) {
      stamps[2 * warp] = began;
      stamps[2 * warp + 1] = now();
    }
  }
"""
STAMP_READER = """
// Copies the stamps out and clears them.
extern "C" int read_stamps(void* to, int64_t bytes) {
  if (cudaMemcpyFromSymbol(to, stamps, bytes)) return 1;
  void* address = nullptr;
  return cudaGetSymbolAddress(&address, stamps) || cudaMemset(address, 0, bytes);
}
"""


def stamp(solution: Any) -> Any:
    """The CUDA Solution with time stamps in its main kernels."""
    solution = solution.model_copy(deep=True)
    sources = {source.path: source for source in solution.sources}
    device, host = sources["rmsnorm.cuh"], sources["launch_fp16.cu"]
    includes, namespace, kernels = device.content.partition("namespace {\n")
    for kernel in STAMPED_KERNELS:
        kernels = stamp_kernel(kernels, kernel)
    device.content = f"{includes}{namespace}{STAMP_DECLARATIONS}{kernels}"
    host.content += STAMP_READER
    return solution


def stamp_kernel(source: str, kernel: str) -> str:
    """The source with stamps where a kernel's body begins and ends."""
    head, name, rest = source.partition(f"    {kernel}(")
    signature, brace, body = rest.partition(") {\n")
    inside, end, tail = body.partition("\n}\n")
    if not (name and brace and end):
        raise SystemExit(f"{STAMPED} is not written as this script expects: {kernel}")
    return f"{head}{name}{signature}{brace}{STAMP_BEGIN}{inside}\n{STAMP_END}}}\n{tail}"


def run_stamps(figures: Figures, empty_us: float) -> None:
    """Time stamps from inside the CUDA solution's kernel, behind the same eviction as in a bench."""
    import ctypes

    import torch

    from fib_rmsnorm.evaluation.building.cache import cache_folder
    from fib_rmsnorm.evaluation.building.native import build_native, load_native
    from fib_rmsnorm.evaluation.timing.l2 import L2Eviction
    from fib_rmsnorm.registry import Registry

    registry = Registry(ROOT)
    library = build_native(stamp(registry.solutions()[STAMPED]), cache_folder()).library
    entry = load_native(library, "run")
    reader = ctypes.CDLL(str(library)).read_stamps
    evict = L2Eviction("cuda:0")
    stamps = torch.zeros(1 << 23, dtype=torch.int64)
    pointer, size = ctypes.c_void_p(stamps.data_ptr()), ctypes.c_int64(stamps.nbytes)
    for batch in BATCHES:
        (call,) = make_calls(entry, registry.definition(DEFINITION), batch, 1)
        call()
        spans = []
        for _ in range(STAMP_CALLS):
            if reader(pointer, size):
                raise SystemExit("the stamps cannot be read")
            evict()
            torch.cuda.synchronize()
            call()
            torch.cuda.synchronize()
            reader(pointer, size)
            pairs = stamps.view(-1, 2)
            pairs = pairs[pairs[:, 0] > 0]
            spans.append((pairs[:, 1].max() - pairs[:, 0].min()).item() / 1e3)
        row = figures[key(STAMPED, batch)]
        row["stamps"] = round(median(spans) + empty_us, 3)
        row["stamped"] = round(measure_by_cupti(call, STAMP_CALLS), 3)


def main() -> None:
    """Run everything and write the file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--output", type=Path)
    parser.add_argument("--solutions", default=f"{STAMPED},rmsnorm_triton_row_v1,rmsnorm_tilelang_row_v1")
    parser.add_argument("--profiled", help=argparse.SUPPRESS)
    parser.add_argument("--evict", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.profiled:
        profiled_child(options.profiled.split(","), evict=options.evict)
        return
    solutions = options.solutions.split(",")
    figures: Figures = {}
    with tempfile.TemporaryDirectory() as temporary:
        registry = Path(temporary)
        for folder in ("definitions", "solutions"):
            shutil.copytree(ROOT / folder, registry / folder)
        for packed in registry.glob("solutions/*/*/*/*.json"):
            if packed.stem not in solutions:
                packed.unlink()
                shutil.rmtree(packed.with_suffix(""), ignore_errors=True)
        empty_us = run_ours(registry, solutions, figures)
        run_upstream(registry, figures)
    offset = run_ncu(solutions, figures, empty_us, evict=False)
    run_ncu(solutions, figures, empty_us, evict=True)
    slope = run_graphs(solutions, figures, empty_us)
    run_stamps(figures, empty_us)
    import torch

    result = {
        "hardware": torch.cuda.get_device_name(),
        "empty_kernel_us": round(empty_us, 3),
        "ncu_adds_us": round(offset, 3),
        "graph_slope_of_empty_kernels_us": round(slope, 3),
        "rows": figures,
    }
    options.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
