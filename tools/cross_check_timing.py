"""What independent clocks say of the kernels, beside what this tool and flashinfer-bench say: a JSON file.

    python tools/cross_check_timing.py --output docs/timing_h200.json

Needs a GPU with CUPTI, ncu and nvcc, and takes some minutes. Microseconds, for each solution and batch:

- `ours`: the medians of benches in processes of their own, one after the other;
- `upstream`: what flashinfer-bench records as latency;
- `ncu`: gpu__time_duration behind caches that ncu flushes and invalidates, less what ncu adds to a kernel of known
  length that touches no memory (its own reading of one in as many blocks, less CUPTI's: probe_clocks.py says why it is
  not an empty one); `ncu_evicted`: the same behind our eviction, with ncu leaving the caches alone;
- `graph`: the slope of a CUDA graph's time over its number of calls, which rotate over more memory than the cache
  holds; less the slope of a graph of empty kernels, plus CUPTI's empty kernel;
- `stamps`: from the first warp's start to the last warp's end by the GPU's clock, read inside the kernel, plus CUPTI's
  empty kernel for what lies before and behind; `stamped`: CUPTI's reading of the same kernel, which the stamps
  slow down; `stamps_ncu`: as `stamps`, taken while ncu watched (only the CUDA solution, whose source is patched).

The solution `copy` is a kernel's copy of x, for what the graphs show: their calls write back what those before wrote.
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

import probe_clocks
import stamped_kernel
import under_ncu

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

DEFINITION = "rmsnorm_d4096"
STAMPED = "rmsnorm_cuda_vec16_v1"
BATCHES = (1, 8, 32, 128, 512, 4096, 16384, 65536)
RUNS = 3
REFERENCE = "spin 1000"
REFERENCE_CALLS = 100
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


def make_copies(library: Path, definition: Any, batch: int, sets: int) -> list[Call]:
    """Copies of x, as `make_calls` makes calls. (Not torch's: in a graph those are no kernels.)"""
    import torch

    launch = probe_clocks.Launcher(library)
    shape = (batch, definition.const_axes["hidden"])
    sources = [torch.randn(shape, dtype=torch.float16, device="cuda:0") for _ in range(sets)]
    return [partial(launch, "copy", batch, source, torch.empty_like(source)) for source in sources]


def empty_kernel() -> None:
    """Launch a kernel that does nothing, on the current stream."""
    import torch

    torch.cuda._sleep(0)


def reference_rows(batch: int) -> int:
    """Blocks of the kernel of known length that a batch is corrected by."""
    return min(batch, probe_clocks.MOST_SPINNING_ROWS)


def reference_calls(library: Path) -> dict[int, Call]:
    """The kernels of known length, by their blocks."""
    probes = probe_clocks.Probes(library)
    return {rows: probes.call(REFERENCE, rows, stamped=False) for rows in sorted({*map(reference_rows, BATCHES)})}


def profiled_child(library: Path, solutions: list[str], *, evict: bool) -> None:
    """What runs below ncu."""
    calls = list(reference_calls(library).values())
    for solution in solutions:
        entry, definition = load(solution)
        calls += [make_calls(entry, definition, batch, 1)[0] for batch in BATCHES]
    under_ncu.profile_calls(calls, evict=evict)


def run_ncu(library: Path, solutions: list[str], figures: Figures, *, evict: bool) -> dict[int, float]:
    """Profile all solutions in one process; returns what ncu adds to kernels of known length, by their blocks."""
    references = reference_calls(library)
    options = ["--probes", str(library), "--profiled", ",".join(solutions), *(["--evict"] if evict else [])]
    rows = [(solution, batch) for solution in solutions for batch in BATCHES]
    durations = under_ncu.read_durations(__file__, *options, kernels=len(references) + len(rows), evict=evict)
    medians = [median(times) for times in durations]
    adds = {
        blocks: reading - probe_clocks.measure_by_cupti(call, REFERENCE_CALLS)
        for (blocks, call), reading in zip(references.items(), medians, strict=False)
    }
    for (solution, batch), reading in zip(rows, medians[len(references) :], strict=True):
        offset = adds[reference_rows(batch)]
        figures[key(solution, batch)]["ncu_evicted" if evict else "ncu"] = round(reading - offset, 3)
    return adds


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


def run_graphs(library: Path, solutions: list[str], figures: Figures, empty_us: float) -> float:
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
                calls = make_copies(library, definition, batch, sets)
                figures[key(COPY, batch)] = {"ours": [round(probe_clocks.measure_by_cupti(calls[0], COPY_CALLS), 3)]}
            else:
                calls = make_calls(entry, definition, batch, sets)
                calls[0]()  # compiles outside of the graph
            figures[key(solution, batch)]["graph"] = round(graph_slope(calls) - slope_of_empty + empty_us, 3)
            del calls
            torch.cuda.empty_cache()
    return slope_of_empty


def load_stamped() -> tuple[stamped_kernel.Stamped, Any]:
    """The CUDA solution with stamps, and its Definition."""
    from fib_rmsnorm.registry import Registry

    registry = Registry(ROOT)
    return stamped_kernel.Stamped(registry.solutions()[STAMPED]), registry.definition(DEFINITION)


def make_stamped_call(stamped: stamped_kernel.Stamped, definition: Any, batch: int) -> Call:
    """A call of the stamped kernel, made once before."""
    (call,) = make_calls(stamped.entry, definition, batch, 1)
    call()
    stamped.take_span()
    return call


def stamped_child(spans: Path) -> None:
    """Run the stamped kernel below ncu, and leave what the stamps say."""
    stamped, definition = load_stamped()
    found: dict[int, list[float]] = {}
    for batch in BATCHES:
        taken = found.setdefault(batch, [])
        call = make_stamped_call(stamped, definition, batch)
        under_ncu.profile_calls([call], evict=True, after=lambda taken=taken: taken.append(stamped.take_span()))
    spans.write_text(json.dumps(found))


def run_stamps(figures: Figures, empty_us: float) -> None:
    """Time stamps from inside the CUDA solution's kernel, behind the same eviction as in a bench."""
    import torch

    from fib_rmsnorm.evaluation.timing.l2 import L2Eviction

    (stamped, definition), evict = load_stamped(), L2Eviction("cuda:0")
    for batch in BATCHES:
        call = make_stamped_call(stamped, definition, batch)
        spans = []
        for _ in range(STAMP_CALLS):
            evict()
            torch.cuda.synchronize()
            call()
            torch.cuda.synchronize()
            spans.append(stamped.take_span())
        row = figures[key(STAMPED, batch)]
        row["stamps"] = round(median(spans) + empty_us, 3)
        row["stamped"] = round(probe_clocks.measure_by_cupti(call, STAMP_CALLS), 3)


def run_stamps_below_ncu(folder: Path, figures: Figures, empty_us: float) -> None:
    """The same while ncu watches."""
    path = folder / "spans.json"
    under_ncu.read_durations(__file__, "--stamped", str(path), kernels=len(BATCHES), evict=True)
    for batch, spans in json.loads(path.read_text()).items():
        figures[key(STAMPED, int(batch))]["stamps_ncu"] = round(median(spans) + empty_us, 3)


def main() -> None:
    """Run everything and write the file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--output", type=Path)
    parser.add_argument("--solutions", default=f"{STAMPED},rmsnorm_triton_row_v1,rmsnorm_tilelang_row_v1")
    parser.add_argument("--probes", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--profiled", help=argparse.SUPPRESS)
    parser.add_argument("--stamped", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--evict", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.profiled:
        profiled_child(options.probes, options.profiled.split(","), evict=options.evict)
        return
    if options.stamped:
        stamped_child(options.stamped)
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
        library = probe_clocks.build(Path(temporary))
        run_ncu(library, solutions, figures, evict=False)
        adds = run_ncu(library, solutions, figures, evict=True)
        run_stamps_below_ncu(Path(temporary), figures, empty_us)
        slope = run_graphs(library, solutions, figures, empty_us)
    run_stamps(figures, empty_us)
    import torch

    result = {
        "hardware": torch.cuda.get_device_name(),
        "empty_kernel_us": round(empty_us, 3),
        "ncu_adds_us": {str(blocks): round(added, 3) for blocks, added in adds.items()},
        "graph_slope_of_empty_kernels_us": round(slope, 3),
        "rows": figures,
    }
    options.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
