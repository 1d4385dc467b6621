"""A Solution that tries to forge a PASSED by writing files: as it is loaded, when it is called, by what it starts."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
import torch

import fib_rmsnorm
from fib_rmsnorm.building.cache import cache_folder
from fib_rmsnorm.evaluation.bench import BenchOptions, bench
from fib_rmsnorm.evaluation.plan import Selection
from fib_rmsnorm.evaluation.scheduler import Evaluated
from fib_rmsnorm.sandbox.confinement.landlock import landlock_version
from support.paths import TESTS
from support.registries import QUICK, RIGHT, add_kernel, add_sources, make_registry, pack_all, python_manifest

pytestmark = pytest.mark.skipif(landlock_version() < 3, reason="the Landlock of this kernel confines less")

ATTACK = (TESTS / "support" / "forgeries.py").read_text()
KERNEL = """
import tempfile
import traceback

import torch


def attack():
    own = tempfile.mkdtemp()
    found = forge({victim!r}, own)
    opened = []
    for path in {real!r}:
        try:
            open(path, "r+b").close()
            opened.append(path)
        except OSError:
            pass
    return *found, opened


AT_IMPORT = attack()


def run(x, weight, eps):
    raise RuntimeError(f"import: {{AT_IMPORT}}; call: {{attack()}}")
"""


def make_victim(folder: Path) -> Path:
    """What a registry, the package and a cache consist of, by the names that count."""
    folder.mkdir(parents=True)
    for name in ("traces.jsonl", "kernel.py", "build.so"):
        (folder / name).write_text(f"the honest {name}\n")
    return folder


def take_stock(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {path.name: (path.lstat().st_ino, path.read_bytes()) for path in folder.iterdir()}


def list_real_files() -> list[str]:
    """What the judge and the scheduler have loaded or believe, to be opened for writing, no more."""
    package = Path(fib_rmsnorm.__file__).parent
    libraries = Path(torch.__file__).parent / "lib"
    site = Path(sysconfig.get_path("purelib"))
    pth = next(site.glob("*.pth"), site / "none.pth")
    judge = package / "evaluation" / "judging" / "output_comparison.py"
    return [
        str(path) for path in (libraries / "libtorch_cpu.so", judge, Path(torch.__file__), pth, Path(sys.executable))
    ]


@pytest.mark.process
def test_no_way_of_writing_reaches_a_file_of_another(tmp_path):
    registry = make_registry(tmp_path / "registry", batch_sizes=(1,))
    traces = make_victim(registry.root / "traces" / "somebody" / "norm")
    rival = add_kernel(registry, "rival", RIGHT)
    cache = make_victim(cache_folder() / "solutions" / "of-a-rival")
    before = {folder: take_stock(folder) for folder in (traces, cache)}
    sources = {path: path.read_bytes() for path in registry.layout.solutions.rglob("*") if path.is_file()}
    forgers = [
        add_kernel(registry, f"forger{number}", ATTACK + KERNEL.format(victim=str(folder), real=list_real_files()))
        for number, folder in enumerate(before)
    ]
    names = tuple(solution.name for solution in (*forgers, rival))
    options = BenchOptions(Selection(solutions=names, batch_sizes=(1,)), QUICK, "cpu")
    evaluations = {e.trace.solution: e.trace.evaluation for e in bench(registry, options) if isinstance(e, Evaluated)}
    for forger in forgers:
        log = evaluations[forger.name].log
        assert "import: (30, [], []); call: (30, [], [])" in log, log
    assert evaluations[rival.name].status.value == "PASSED"
    assert {folder: take_stock(folder) for folder in before} == before
    assert {path: path.read_bytes() for path in sources} == sources


CPP = r"""
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <unistd.h>

namespace {

const char* const VICTIM = "%s";

// Before main, as a library is loaded, and without Python.
int Attack() {
  const std::string file = std::string(VICTIM) + "/traces.jsonl", own = std::string(getenv("TMPDIR")) + "/link";
  int done = 0;
  for (const char* how : {"a", "w", "r+"}) {
    if (FILE* opened = fopen(file.c_str(), how)) done += fclose(opened) + 1;
  }
  if (symlink(file.c_str(), own.c_str()) == 0) {
    if (FILE* opened = fopen(own.c_str(), "a")) done += fclose(opened) + 1;
    if (rename(own.c_str(), file.c_str()) == 0) ++done;
  }
  if (truncate(file.c_str(), 0) == 0) ++done;
  if (system(("echo forged >> " + file + " 2> /dev/null").c_str()) == 0) ++done;
  return done;
}

const int AT_LOAD = Attack();

}  // namespace

void Run(tvm::ffi::TensorView, tvm::ffi::TensorView, double, tvm::ffi::TensorView) {
  throw std::runtime_error("load: " + std::to_string(AT_LOAD) + "; call: " + std::to_string(Attack()));
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, Run)
"""


@pytest.mark.process
def test_nor_does_a_compiled_one(tmp_path):
    registry = make_registry(tmp_path / "registry", batch_sizes=(1,))
    traces = make_victim(registry.root / "traces" / "somebody" / "norm")
    before = take_stock(traces)
    manifest = python_manifest("forger").replace('"python"', '"cpp"').replace("kernel.py", "kernel.cpp")
    add_sources(registry, "forger", {"kernel.cpp": CPP % traces}, manifest.replace("= false", "= true"))
    pack_all(registry)
    options = BenchOptions(Selection(solutions=("forger",), batch_sizes=(1,)), QUICK, "cpu")
    (evaluation,) = (event.trace.evaluation for event in bench(registry, options) if isinstance(event, Evaluated))
    assert "load: 0; call: 0" in evaluation.log, evaluation.log
    assert take_stock(traces) == before


def test_the_attack_succeeds_where_nothing_confines_it(tmp_path):
    """Otherwise the test above would prove nothing. What needs privileges or a kernel's permission may fail."""
    victim, own = make_victim(tmp_path / "victim"), tmp_path / "own"
    own.mkdir()
    code = f"{ATTACK}\nprint(len(forge({str(victim)!r}, {str(own)!r})[1]))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(told.stdout) >= 12
