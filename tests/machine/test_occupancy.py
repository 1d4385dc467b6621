"""The theoretical occupancy is what NVIDIA's own calculator says."""

import itertools
import shutil
import subprocess
from pathlib import Path

import pytest

from fib_rmsnorm.building.native import find_cuda_home
from fib_rmsnorm.machine.gpu_models import capability_of, find_architecture, is_known, occupancy

ARCHS = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
THREADS = (32, 64, 96, 128, 160, 256, 512, 768, 1024)
REGISTER_COUNTS = (16, 30, 32, 33, 40, 64, 90, 125, 168, 255)
SHARED = (0, 128, 1024, 20_000, 49_152, 100_000)

CALCULATOR = Path(__file__).with_name("occupancy_calculator.cpp")


def test_blocks_agree_with_nvidias_header(tmp_path):
    home = find_cuda_home()
    if home is None or not (home / "include" / "cuda_occupancy.h").exists() or shutil.which("g++") is None:
        pytest.skip("needs cuda_occupancy.h and g++")
    subprocess.run(
        ["g++", f"-I{home / 'include'}", CALCULATOR, "-o", "calculator"], cwd=tmp_path, check=True, capture_output=True
    )
    cases = list(itertools.product(map(find_architecture, ARCHS), THREADS, REGISTER_COUNTS, SHARED))
    cases = [case for case in cases if case[3] <= case[0].max_shared_bytes]
    lines = [
        " ".join(map(str, (*capability_of(gpu.name), gpu.max_threads, gpu.shared_bytes, gpu.max_shared_bytes, *rest)))
        for gpu, *rest in cases
    ]
    run = subprocess.run([tmp_path / "calculator"], input="\n".join(lines), capture_output=True, text=True, check=True)
    theirs = [int(line) for line in run.stdout.split()]
    ours = [occupancy(*case).blocks for case in cases]
    assert len(theirs) == len(cases)
    assert [(case, mine, his) for case, mine, his in zip(cases, ours, theirs, strict=True) if mine != his] == []


@pytest.mark.parametrize(
    ("arch", "threads", "registers", "shared", "scalars", "blocks", "limits"),
    [
        ("sm_90", 512, 32, 0, 0, 4, ("warps", "registers")),
        ("sm_90", 1024, 16, 0, 0, 2, ("warps",)),
        ("sm_90", 32, 16, 0, 0, 32, ("blocks",)),
        ("sm_90", 128, 90, 0, 0, 5, ("registers",)),
        ("sm_90", 128, 16, 50_000, 0, 4, ("shared memory",)),
        ("sm_90", 1024, 128, 0, 0, 0, ("registers",)),
        ("sm_75", 128, 32, 16 << 10, 0, 4, ("shared memory",)),  # none of it is reserved
        ("gfx942", 256, 64, 0, 32, 8, ("warps", "registers")),  # 512 registers of a lane, in eights
        ("gfx942", 256, 65, 0, 32, 7, ("registers",)),
        ("gfx942", 1024, 136, 0, 32, 0, ("registers",)),
        ("gfx90a", 64, 16, 0, 32, 32, ("warps", "blocks")),
        ("gfx942", 256, 16, 20_000, 32, 3, ("shared memory",)),  # of 64 KiB
        ("gfx950", 256, 16, 20_000, 32, 8, ("warps", "shared memory")),  # of 160 KiB
        ("gfx942", 256, 16, 0, 102, 7, ("scalar registers",)),
    ],
)
def test_what_limits_a_multiprocessor_is_named(arch, threads, registers, shared, scalars, blocks, limits):
    """By hand; the compiler's own figures for AMD's: tests/inspection/test_amd_assembly.py."""
    found = occupancy(find_architecture(arch), threads, registers, shared, scalars)
    assert (found.blocks, found.limits) == (blocks, limits)
    assert found.share == blocks * threads / find_architecture(arch).max_threads


def test_an_architecture_that_is_newer_than_the_table_is_like_the_newest_before_it():
    assert find_architecture("sm_91") == find_architecture("sm_90a") == find_architecture("sm_90")
    assert not is_known("sm_91") and is_known("sm_90a")
    assert find_architecture("sm_90").registers == 65536


@pytest.mark.parametrize(("arch", "model"), [("sm_70", "V100 SXM2"), ("sm_75", "T4"), ("sm_80", "A100 40 GB")])
def test_an_architecture_is_represented_by_a_model_of_its_own(arch, model):
    found = find_architecture(arch)
    assert found.model.name == model
    assert occupancy(found, 256, 64, 0).blocks == 4
