"""What independent clocks say of the kernels, beside what this tool and flashinfer-bench say: a JSON file.

    python experiments/cross_check_timing.py --output experiments/timing_h200.json

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
from pathlib import Path
from statistics import median
from typing import Any

import probe_clocks
import stamped_kernel
import under_ncu
from graph_slope import empty_kernel, graph_slope
from kernel_calls import DEFINITION, Call, load, make_calls, make_copies, reference_calls, reference_rows

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

STAMPED = "rmsnorm_cuda_vec16_v1"
BATCHES = (1, 8, 32, 128, 512, 4096, 16384, 65536)
RUNS = 3
REFERENCE_CALLS = 100
STAMP_CALLS = 60
COPY_CALLS = 200
ROTATED_BYTES = 192 << 20  # several times any L2
FEWEST_SETS = 2
COPY = "copy"

Figures = dict[str, dict[str, Any]]


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
                print(row, performance["noisy"])
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


def profiled_child(library: Path, solutions: list[str], *, evict: bool) -> None:
    """What runs below ncu."""
    calls = list(reference_calls(library, BATCHES).values())
    for solution in solutions:
        entry, definition = load(solution)
        calls += [make_calls(entry, definition, batch, 1)[0] for batch in BATCHES]
    under_ncu.profile_calls(calls, evict=evict)


def run_ncu(library: Path, solutions: list[str], figures: Figures, *, evict: bool) -> dict[int, float]:
    """Profile all solutions in one process; returns what ncu adds to kernels of known length, by their blocks."""
    references = reference_calls(library, BATCHES)
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
    return stamped_kernel.Stamped(registry.packed_solutions()[STAMPED]), registry.definition(DEFINITION)


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

    from fib_rmsnorm.evaluation.timing.cuda_driver import L2Eviction

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


def make_registry(folder: Path, solutions: list[str]) -> Path:
    """A copy of the registry with these Solutions alone."""
    for name in ("definitions", "solutions"):
        shutil.copytree(ROOT / name, folder / name)
    for packed in folder.glob("solutions/*/*/*/*.json"):
        if packed.stem not in solutions:
            packed.unlink()
            shutil.rmtree(packed.with_suffix(""), ignore_errors=True)
    return folder


def run_everything(solutions: list[str]) -> dict[str, Any]:
    """What goes into the file."""
    figures: Figures = {}
    with tempfile.TemporaryDirectory() as temporary:
        registry = make_registry(Path(temporary), solutions)
        empty_us = run_ours(registry, solutions, figures)
        run_upstream(registry, figures)
        library = probe_clocks.build(registry)
        run_ncu(library, solutions, figures, evict=False)
        adds = run_ncu(library, solutions, figures, evict=True)
        run_stamps_below_ncu(registry, figures, empty_us)
        slope = run_graphs(library, solutions, figures, empty_us)
    run_stamps(figures, empty_us)
    import torch

    return {
        "hardware": torch.cuda.get_device_name(),
        "empty_kernel_us": round(empty_us, 3),
        "ncu_adds_us": {str(blocks): round(added, 3) for blocks, added in adds.items()},
        "graph_slope_of_empty_kernels_us": round(slope, 3),
        "rows": figures,
    }


def main() -> None:
    """Run everything and write the file; or, below ncu, what it profiles."""
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
    elif options.stamped:
        stamped_child(options.stamped)
    else:
        result = run_everything(options.solutions.split(","))
        options.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
