"""The CuTe DSL kernel, as far as it goes without a GPU: how it launches, and what it compiles to."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec

import pytest

from fib_rmsnorm.building.source_files import write_sources
from fib_rmsnorm.registry import Registry
from support.paths import REPOSITORY

PACKAGE = "rmsnorm_python_cutedsl_v1"
COMPILE = f"""
import sys
import torch
from {PACKAGE}.kernel import Launch, compiled
hidden, dtype, *launch = sys.argv[1:]
compiled(int(hidden), getattr(torch, dtype), Launch(*map(int, launch)))
"""

pytestmark = pytest.mark.skipif(find_spec("cutlass") is None, reason="needs nvidia-cutlass-dsl")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with the packed sources as a package."""
    folder = tmp_path_factory.mktemp("cutedsl")
    write_sources(Registry(REPOSITORY).solutions()[PACKAGE], folder / PACKAGE)
    return folder


@pytest.fixture
def kernel(monkeypatch, home):
    monkeypatch.syspath_prepend(str(home))
    return pytest.importorskip(f"{PACKAGE}.kernel")


@pytest.fixture
def row_launch(kernel):
    return sys.modules[f"{PACKAGE}.row_launch"]


def compile_ptx(home, folder, *arguments: object) -> str:
    """In a process of its own: where PTX is kept is read when CuTe DSL is imported."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(home),
        "CUTE_DSL_ARCH": "sm_90a",
        "CUTE_DSL_KEEP": "ptx",
        "CUTE_DSL_DUMP_DIR": str(folder),
    }
    subprocess.run([sys.executable, "-c", COMPILE, *map(str, arguments)], env=environment, check=True, timeout=120)
    (ptx,) = folder.glob("*.ptx")
    return ptx.read_text()


@pytest.mark.parametrize("itemsize", [2, 4])
def test_every_launch_covers_its_row(row_launch, itemsize):
    for hidden in [*range(128, 8192 + 1, 128), 16384, 32768, 65536, 131072 - 128]:
        vectors_per_row = hidden * itemsize // 16
        for batch in (1, 8, 513, 4096, 65536):
            launch = row_launch.choose_launch(batch, hidden, itemsize, 132)
            assert 0 < launch.threads * launch.rows <= row_launch.MAX_THREADS
            assert launch.threads % 32 == 0 or (launch.threads < 32 and 32 % launch.threads == 0)
            if launch.vectors:
                assert launch.threads * launch.vectors >= vectors_per_row
            else:
                assert vectors_per_row > row_launch.MAX_THREADS * row_launch.MAX_VECTORS and launch.rows == 1


def test_a_tuned_choice_is_taken_at_as_many_rows_per_multiprocessor(row_launch, monkeypatch):
    row = {"hidden": 4096, "itemsize": 2, "multiprocessors": 132, "rows": 4}
    choices = [{**row, "min_batch": 0, "threads": 512}, {**row, "min_batch": 132, "threads": 128}]
    monkeypatch.setattr(sys.modules[f"{PACKAGE}.choices"], "CHOICES", choices)
    assert row_launch.choose_launch(65, 4096, 2, 66) == (512, 1, 1)
    assert row_launch.choose_launch(66, 4096, 2, 66) == (128, 4, 4)


@pytest.mark.parametrize(
    ("hidden", "dtype", "threads", "rows", "vectors"),
    [
        pytest.param(4096, "float16", 512, 1, 1, marks=pytest.mark.slow),
        pytest.param(4096, "float16", 128, 2, 4, marks=pytest.mark.slow),
        pytest.param(4096, "float32", 128, 1, 8, marks=pytest.mark.slow),
        (2560, "bfloat16", 96, 1, 4),  # the last vectors lie beyond the row
        (128, "float16", 16, 8, 1),  # rows that share a warp
    ],
)
def test_x_is_read_once_in_16_bytes(home, tmp_path, hidden, dtype, threads, rows, vectors):
    ptx = compile_ptx(home, tmp_path, hidden, dtype, threads, rows, vectors)
    assert len(re.findall(r"ld\.global\.v4\.b32", ptx)) == 2 * vectors
    assert len(re.findall(r"st\.global\.v4\.b32", ptx)) == vectors
    assert len(re.findall(r"(?:ld|st)\.global", ptx)) == 3 * vectors
    assert len(re.findall(r"bar\.sync", ptx)) == (threads > 32)
    assert ".local" not in ptx  # nothing spills, nothing is indexed
    assert ".ftz" not in ptx  # subnormals are kept


@pytest.mark.slow
def test_a_long_row_is_walked_twice(home, tmp_path):
    ptx = compile_ptx(home, tmp_path, 65536, "float32", 512, 1, 0)
    assert re.search(r"ld\.global\.v4\.b32", ptx)
    assert not re.search(r"ld\.global\.(?!v4)", ptx)
    assert ".local" not in ptx and ".ftz" not in ptx


def test_other_shapes_and_dtypes_are_refused(kernel):
    import torch

    with pytest.raises(ValueError, match=r"hidden a multiple of 128, not torch.float16 and 100"):
        kernel.kernel_for(8, 100, torch.float16, torch.device("cuda"))
    with pytest.raises(ValueError, match=r"not torch.float64"):
        kernel.kernel_for(8, 4096, torch.float64, torch.device("cuda"))
