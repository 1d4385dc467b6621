"""What clocks add to kernels that do one thing each: a JSON file.

    python experiments/probe_clocks.py --output experiments/clock_probes_h200.json

Needs a GPU with CUPTI, ncu and nvcc, and takes a minute or two. Microseconds, for each probe of probes.cu and number of
rows of 8 KB, all behind our eviction (`ncu_flushed`: behind ncu's own):

- `cupti`: the median by our timer;
- `ncu`, `ncu_flushed`: the median of gpu__time_duration, as it is;
- `stamps_cupti`, `stamps_ncu`: from the first warp's start to the last warp's end by the GPU's clock, read inside the
  kernel while the one and the other clock watched; `stamped_cupti`, `stamped_ncu`: what those clocks said of the same
  kernels, which the stamps slow down.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import under_ncu

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

SPINS = {f"spin {cycles}": cycles for cycles in (1000, 2000, 4000, 8000)}
# In the order of probes.cu's.
KINDS = (("empty",), tuple(SPINS), ("read",), ("write",), ("copy",), ("fenced copy",))
ROWS = (1, 8, 32, 128, 512, 4096)
MOST_SPINNING_ROWS = 128  # at least as many multiprocessors: rows that wait for others would take a multiple
ROW_BYTES = 8192
WARPS = 8  # a row
CUPTI_CALLS = 200


class Launcher:
    """What enqueues the probes, on the current stream."""

    def __init__(self, library: Path) -> None:
        self._launch = ctypes.CDLL(str(library)).launch

    def __call__(self, kind: str, rows: int, source: Any, destination: Any, stamps: int = 0) -> None:
        """Enqueue a probe on tensors of at least so many rows; stamps: an address, or 0."""
        import torch

        number = next(number for number, kinds in enumerate(KINDS) if kind in kinds)
        stream = torch.cuda.current_stream().cuda_stream
        arguments = (source.data_ptr(), destination.data_ptr(), SPINS.get(kind, 0), stamps, stream)
        if self._launch(number, rows, *map(ctypes.c_int64, arguments)):
            raise SystemExit(f"the probe '{kind}' cannot be launched")


class Probes:
    """The kernels of probes.cu, on tensors of their own."""

    def __init__(self, library: Path) -> None:
        import torch

        self._launch = Launcher(library)
        ints = max(ROWS) * ROW_BYTES // 4
        self._from = torch.randint(0, 2**31 - 1, (ints,), dtype=torch.int32, device="cuda:0")
        self._to = torch.empty_like(self._from)
        self._calls = max(CUPTI_CALLS, under_ncu.CALLS + 1)
        self._stamps = torch.empty(self._calls, max(ROWS) * WARPS, 2, dtype=torch.int64, device="cuda:0")
        self._calls_made = 0

    def call(self, kind: str, rows: int, *, stamped: bool) -> Callable[[], None]:
        """A call of a probe."""

        def call() -> None:
            stamps = self._stamps[self._calls_made % self._calls].data_ptr() if stamped else 0
            self._calls_made += 1
            self._launch(kind, rows, self._from, self._to, stamps)

        return call

    def read_spans(self, rows: int, calls: int) -> list[float]:
        """Microseconds from the first stamp to the last of the latest calls."""
        latest = [index % self._calls for index in range(self._calls_made - calls, self._calls_made)]
        stamps = self._stamps[latest, : rows * WARPS].cpu()
        spans = stamps[:, :, 1].amax(1) - stamps[:, :, 0].amin(1)
        return [span / 1e3 for span in spans.tolist()]


def each_probe() -> list[tuple[str, int, bool]]:
    """Kind, rows, and whether it is stamped."""
    found = [(kind, rows, stamped) for kinds in KINDS for kind in kinds for rows in ROWS for stamped in (False, True)]
    return [probe for probe in found if probe[0] not in SPINS or probe[1] <= MOST_SPINNING_ROWS]


def build(folder: Path) -> Path:
    """Compile the probes."""
    library = folder / "probes.so"
    options = ["-arch=native", "-O3", "-shared", "-Xcompiler", "-fPIC"]
    subprocess.run(["nvcc", *options, ROOT / "experiments" / "probes.cu", "-o", library], check=True)
    return library


def profiled_child(library: Path, spans: Path, *, evict: bool) -> None:
    """Run every probe below ncu, and leave what the stamps say."""
    probes = Probes(library)
    found = {}
    for kind, rows, stamped in each_probe():
        under_ncu.profile_calls([probes.call(kind, rows, stamped=stamped)], evict=evict)
        if stamped:
            found[f"{kind}@{rows}"] = median(probes.read_spans(rows, under_ncu.CALLS))
    spans.write_text(json.dumps(found))


def measure_by_cupti(call: Callable[[], Any], calls: int) -> float:
    """Median in microseconds, with a cold cache, by our timer."""
    from fib_rmsnorm.evaluation.timing.cupti import Cupti
    from fib_rmsnorm.evaluation.timing.latency_statistics import grouped_median
    from fib_rmsnorm.evaluation.timing.timer import Trial

    timer = Cupti("cuda:0")
    timer.measure(lambda _: call, Trial(10, cold=True, budget_s=60))
    samples = timer.measure(lambda _: call, Trial(calls, cold=True, budget_s=60))
    return 1e3 * grouped_median([sample.span_ms for sample in samples], timer.tick_ms)


def run_cupti(library: Path, figures: dict[str, dict[str, Any]]) -> float | None:
    """Time every probe by our timer; returns the multiprocessors' clock behind it."""
    from fib_rmsnorm.machine.clocks import read_clocks

    probes = Probes(library)
    for kind, rows, stamped in each_probe():
        found = measure_by_cupti(probes.call(kind, rows, stamped=stamped), CUPTI_CALLS)
        row = figures.setdefault(f"{kind}@{rows}", {})
        row["stamped_cupti" if stamped else "cupti"] = round(found, 3)
        if stamped:
            row["stamps_cupti"] = round(median(probes.read_spans(rows, CUPTI_CALLS)), 3)
    return read_clocks("cuda:0").clock_mhz


def run_ncu(library: Path, figures: dict[str, dict[str, Any]], *, evict: bool) -> None:
    """Time every probe by ncu."""
    spans = library.with_name("spans.json")
    options = ["--profiled", str(library), "--spans", str(spans), *(["--evict"] if evict else [])]
    probes = each_probe()
    durations = under_ncu.read_durations(__file__, *options, kernels=len(probes), evict=evict)
    for (kind, rows, stamped), times in zip(probes, durations, strict=True):
        row = figures[f"{kind}@{rows}"]
        if evict or not stamped:
            name = "stamped_ncu" if stamped else "ncu" if evict else "ncu_flushed"
            row[name] = round(median(times), 3)
    if evict:
        for key, span in json.loads(spans.read_text()).items():
            figures[key]["stamps_ncu"] = round(span, 3)


def main() -> None:
    """Run everything and write the file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--output", type=Path)
    parser.add_argument("--profiled", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--spans", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--evict", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.profiled:
        profiled_child(options.profiled, options.spans, evict=options.evict)
        return
    figures: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        library = build(Path(temporary))
        clock_mhz = run_cupti(library, figures)
        run_ncu(library, figures, evict=True)
        run_ncu(library, figures, evict=False)
    import torch

    result = {"hardware": torch.cuda.get_device_name(), "clock_mhz": clock_mhz, "rows": figures}
    options.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
