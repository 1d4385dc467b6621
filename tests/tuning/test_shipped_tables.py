"""`tune`: real kernels and their tables."""

import shutil
from pathlib import Path

import pytest

from fib_rmsnorm.building.native import find_cuda_home
from support.paths import REPOSITORY
from support.registries import copy_shared, make_registry

SHIPPED = REPOSITORY / "solutions" / "fib-rmsnorm" / "norm" / "rmsnorm_d4096"


@pytest.mark.parametrize(
    ("name", "parameters", "block"),
    [
        ("rmsnorm_cuda_vec16_v1", {"threads": 64, "rows": 4}, [64, 4, 1]),
        ("rmsnorm_triton_row_v1", {"rows": 2, "warps": 2, "tied": 1}, [128, 1, 1]),
        ("rmsnorm_tilelang_row_v1", {"rows": 2, "warps": 4}, [256, 1, 1]),
    ],
)
@pytest.mark.compile
def test_shipped_kernels_launch_as_their_table_says(fib, tmp_path, monkeypatch, name, parameters, block):
    from fib_rmsnorm.registry.sources.manifest import read_manifest
    from fib_rmsnorm.tuning.tunable import Choice, render_table

    language = name.split("_")[1]
    if language != "triton" and find_cuda_home() is None:
        pytest.skip("needs nvcc")
    if language != "cuda":
        pytest.importorskip(language)
    tuning = read_manifest(SHIPPED / name / "solution.toml").tune
    shape = {"hidden": 4096, "itemsize": 2}
    columns = [*shape, "multiprocessors", "min_batch", *tuning.parameters]
    others = {each: values[0] for each, values in tuning.parameters.items()}
    choices = [Choice(shape, 0, parameters), Choice(shape, 101, others)]
    registry = make_registry(tmp_path / "registry", 4096)
    copy_shared(registry)
    monkeypatch.chdir(registry.root)
    kernel = Path(shutil.copytree(SHIPPED / name, tmp_path / name))
    (kernel / tuning.table).write_text(render_table(name, columns, choices, 132))
    explained = fib("explain", kernel, "--arch", "sm_90", "--batch-sizes", "8,100,1000", "--json").answer
    blocks = [launch["block"] for launch in explained["launches"]]
    assert blocks[:2] == [block, block]
    assert blocks[2] != block


@pytest.mark.gpu
def test_a_kernel_tuned_on_a_gpu(fib, tmp_path, monkeypatch):
    registry = make_registry(tmp_path / "registry", 4096)
    copy_shared(registry)
    monkeypatch.chdir(registry.root)
    shutil.copytree(REPOSITORY / "examples" / "block_size", tmp_path / "block_size")
    outcome = fib("tune", tmp_path / "block_size", "--batch-sizes", "1,4096", "--set", "block=128,4096")
    assert outcome.code == 0, outcome.err
    assert ", 4096},\n" in (tmp_path / "block_size" / "choices.inc").read_text()
    assert "and the compiled code at batch=4096 for" in outcome.out
