"""A language, a timer and a GPU model are added from outside, in the places that docs/architecture.md names."""

from __future__ import annotations

import json
import shutil
from functools import partial

import pytest

from support.command_line import QUICK_OPTIONS, run_cli
from support.paths import REPOSITORY
from support.registries import add_sources, make_registry, python_manifest

ADDED = {
    "languages.py": """
register(
    Language(
        "rows",
        "Rows",
        (".rows",),
        builder="fib_rmsnorm.building.rows_builder:build",
        on={"cuda": ("no", "Rows are for CPUs"), "cpu": ("run", "")},
        cache_variable="ROWS_CACHE",
    )
)
""",
    "building/rows_builder.py": """
import os
import torch
from fib_rmsnorm.building.build_errors import BuildError

def build(solution, cache):
    assert os.environ["ROWS_CACHE"].startswith(str(cache))
    parameters, arrow, expression = solution.get_entry_source().content.partition("->")
    if not arrow:
        raise BuildError("an arrow is missing")
    return eval(f"lambda {parameters}: {expression}", {"rsqrt": torch.rsqrt})
""",
    "evaluation/timing/sundial.py": """
from fib_rmsnorm.evaluation.timing.cpu_clock import CpuClock

class Sundial(CpuClock):
    name = "sundial"
""",
    "evaluation/timing/__init__.py": """
def _find_timer(device):
    from fib_rmsnorm.evaluation.timing.sundial import Sundial
    return Sundial
""",
    "machine/gpu_models.py": """
GPU_MODELS = (*GPU_MODELS, GpuModel("X9", r"\\bX9\\b", "sm_90", 12345, 100, 128, 1000, 1 << 20))
""",
}
NORM = "x, weight, eps -> (x.float() * rsqrt((x.float() ** 2).mean(-1, True) + eps) * weight.float()).to(x.dtype)"
KERNELS = {"right": NORM, "wrong": NORM.replace(" + eps", ""), "broken": NORM.replace("->", "=")}


@pytest.fixture(scope="module")
def fib(tmp_path_factory):
    """Run commands of a copy of the package with these parts, in a registry with Solutions in the language."""
    root = tmp_path_factory.mktemp("made_up")
    shutil.copytree(REPOSITORY / "fib_rmsnorm", root / "fib_rmsnorm")
    for file, text in ADDED.items():
        with (root / "fib_rmsnorm" / file).open("a") as added:
            added.write(text)
    registry = make_registry(root, batch_sizes=[8])
    for name, source in KERNELS.items():
        manifest = python_manifest(name).replace("python", "rows").replace("kernel.py", "kernel.rows")
        add_sources(registry, name, {"kernel.rows": source}, manifest)
    run = partial(run_cli, cwd=root, PYTHONPATH=str(root), FIB_RMSNORM_CACHE=str(root / "cache"))
    vars(run)["root"] = root
    return run


@pytest.mark.process
def test_solutions_are_packed_built_judged_and_timed(fib):
    packed = fib("solve", "--languages", "rows")
    assert packed.returncode == 0 and "right (Rows)" in packed.stdout
    output = fib.root / "traces.jsonl"
    assert fib("bench", *QUICK_OPTIONS, "--output", str(output)).returncode == 1
    traces = list(map(json.loads, output.read_text().splitlines()))
    found = {each["solution"]: each["evaluation"] for each in traces}
    statuses = {name: each["status"] for name, each in found.items()}
    assert statuses == {"right": "PASSED", "wrong": "INCORRECT_NUMERICAL", "broken": "COMPILE_ERROR"}
    assert "an arrow is missing" in found["broken"]["log"]
    timed = found["right"]["performance"]
    assert timed["timer"] == "sundial" and 0 < timed["latency_ms"] < 100
    told = fib("report").stdout
    assert "Rows" in told and "sundial" in told
    devices = json.loads(fib("env", "--json").stdout)["devices"]
    assert devices[-1]["timer"] == "sundial" and devices[-1]["languages"]["rows"]["ability"] == "run"
    assert json.loads(fib("new", "rows", "new.rows", "--json").stdout)["kind"] == "reference"
    # The GPU is known by the Traces that it would have made.
    (file,) = (fib.root / "traces").rglob("*.jsonl")
    file.write_text(file.read_text().replace(found["right"]["environment"]["hardware"], "NVIDIA X9"))
    assert "12345" in fib("analyze").stdout
