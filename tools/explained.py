"""Generate docs/explained.md, the output of `fib-rmsnorm explain` for the repository's own kernels."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "explained.md"
ARCH = "sm_90"
BATCH_SIZES = "1,512,4096,65536"
SOLUTIONS = ("rmsnorm_cuda_vec16_v1", "rmsnorm_tilelang_row_v1")
HEADER = """\
# The kernels, as compiled

This page shows the output of `fib-rmsnorm explain SOLUTION --arch {arch} --batch-sizes {batches}` for our kernels,
compiled by {versions}. The Triton kernel stands [beside its code for an AMD
GPU](#on-amds-gpus). `make fix` generates the page; `make check` compares it where these compilers are installed.

| look at | best for a memory-bound kernel |
|---|---|
| global loads and stores | 16-byte accesses |
| spilled bytes | 0 |
| barriers | 1 |
| occupancy | many bytes in flight: many warps, or many loads of each |
| waves | at or below a whole number: just above, most multiprocessors are idle at the end |
| load sectors | 512 for a row of 4096 fp16 elements: `x` and the weight; fewer if rows share a program's weight |
| store sectors | 256 for that row: `out` |

Transactions in a loop are counted only in Triton kernels, where the loop's bounds follow from constants and the
arguments of the launch; elsewhere they are `?`.

A kernel in Triton or CUDA is also called, without running, on tensors of more than 2^31 elements. If part of an offset
exceeds 32 bits there, a conclusion names its line (`wraps_at` in JSON). In CUDA, two threads of the last block are
followed through the PTX, as far as numbers known before the launch decide. Kernels in other languages, and those that
torch binds, are not checked.
"""
AMD_ARCHS, AMD_SOLUTION = "sm_90,gfx942", "rmsnorm_triton_row_v1"
AMD_HEADER = """\
## On AMD's GPUs

Triton also compiles for AMD's `gfx90a` (MI250X), `gfx942` (MI300X) and `gfx950` (MI355X); kernels in other languages
are refused. Several architectures are shown side by side. **No AMD machine has run this**: the tests compare what the
tool reads with what the compiler reports, and nothing was timed.

On Linux with ROCm's torch, AMD's GPUs are devices too: Triton and Python Solutions are judged there and timed by HIP
events; other languages are skipped. **This is untested, too**, so the first run may fail. Inputs are not guarded there,
outputs go through the host, and `--context graph`, rows beyond 2^31 elements and clocks are missing.

| here | in AMD's words |
|---|---|
| multiprocessor, of 4 subpartitions | compute unit, of 4 SIMDs |
| warp, of 32 threads | wavefront, of 64 |
| block, shared memory | workgroup, LDS |
| registers, scalar registers | VGPRs with accumulators, SGPRs |
| spilled bytes | scratch memory of a thread |

The source is the same for both GPUs, and so are the bytes that it moves. Launch parameters are not portable: 8 warps
are 512 threads on an MI300X, so a thread has one 16-byte load of each tensor where an H200's has two.
`fib-rmsnorm explain {solution} --arch {archs} --batch-sizes {batches}`:
"""


def make_page(run: Callable[..., str]) -> str:
    """Return the page of what `run` prints for commands, unchanged if the compilers that made it are missing."""
    before = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    versions = _versions()
    if versions is None or (before and "--check" in sys.argv and versions not in before):
        return before

    def explain(solution: str, archs: str) -> str:
        told = run("explain", solution, "--arch", archs, "--batch-sizes", BATCH_SIZES)
        text = "\n".join(line.rstrip() for line in told.splitlines())
        return f"```\n{text}\n```\n"

    parts = [HEADER.format(arch=ARCH, batches=BATCH_SIZES, versions=versions)]
    parts += [f"## {solution}\n\n{explain(solution, ARCH)}" for solution in SOLUTIONS]
    header = AMD_HEADER.format(solution=AMD_SOLUTION, archs=AMD_ARCHS, batches=BATCH_SIZES)
    return "\n".join([*parts, header, explain(AMD_SOLUTION, AMD_ARCHS)])


def _versions() -> str | None:
    """The compilers, if all of them are here."""
    sys.path.insert(0, str(ROOT))
    from importlib.metadata import PackageNotFoundError, version

    from fib_rmsnorm.building.native import find_cuda_home

    home = find_cuda_home()
    if home is None:
        return None
    told = subprocess.run([home / "bin" / "nvcc", "--version"], capture_output=True, text=True, check=True).stdout
    nvcc = re.search(r"V([\d.]+)", told)
    try:
        return f"nvcc {nvcc[1] if nvcc else '?'}, Triton {version('triton')} and TileLang {version('tilelang')}"
    except PackageNotFoundError:
        return None
