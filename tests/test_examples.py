"""The wheel, its release, the examples of the documentation and the tools of experiments/, as far as without a GPU."""

import json
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from flashinfer_bench.data import TraceSet

from fib_rmsnorm.serving.reward import CHEAT_REWARD
from support.command_line import run_process, run_python
from support.paths import PUBLISHED, REPOSITORY

EXPERIMENTS = REPOSITORY / "experiments"
KINDS = ("correct", "wrong", "crash", "cheat")


def test_best_by_batch_names_a_winner_for_each_batch():
    example = REPOSITORY / "docs" / "examples" / "best_by_batch.py"
    printed = run_python(example, PUBLISHED, cwd=REPOSITORY)
    lines = [line for line in printed.splitlines() if line.startswith("NVIDIA H100 80GB HBM3 (cupti)  rmsnorm_d4096")]
    assert len(lines) == 8 and lines[0].endswith(" us")


def test_upstream_loads_the_dataset_of_the_comparison_with_its_evaluator(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    from compare_with_upstream import DEFINITION, make_dataset

    chosen = make_dataset(tmp_path / "dataset", 32, ["weight_only", "own_stream", "cpp_throws"])
    assert chosen.keys() == {"wrong/weight_only", "honest/own_stream"}
    loaded = TraceSet.from_path(str(tmp_path / "dataset"))
    assert {solution.name for solution in loaded.solutions[DEFINITION]} == set(chosen.values())
    assert [trace.workload.axes for trace in loaded.workloads[DEFINITION]] == [{"batch": 32}]


def test_the_files_for_other_evaluators_call_the_kernel_and_the_reference(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    monkeypatch.setenv("FIB_CACHE_PATH", str(tmp_path / "cache"))
    from compare_with_peers import write_files
    from compare_with_upstream import make_dataset

    (name,) = make_dataset(tmp_path / "dataset", 32, ["scratch_in_place"]).values()
    reference, solution, language = write_files(tmp_path / "dataset", name)
    theirs: dict[str, Any] = {}
    ours: dict[str, Any] = {}
    exec(reference, theirs)
    exec(solution, ours)
    inputs = theirs["get_inputs"]()
    difference = theirs["Model"]()(*inputs) - ours["Model"]()(*inputs)
    assert difference.shape == (32, 4096) and difference.abs().max() < 0.05 and language == "python"


@pytest.mark.process  # a process that imports torch, and trains
def test_a_llama_learns_the_same_with_our_norms(tmp_path):
    output = tmp_path / "llama.json"
    options = ["--sizes", "small", "--dtypes", "float32", "--modes", "eager", "--steps", "30", "--tokens", "4"]
    printed = run_python(EXPERIMENTS / "train_llama.py", *options, "--output", output)
    (run,) = json.loads(output.read_text())["runs"]
    assert run["norms"] == 5
    assert run["losses"]["ours"][-1] < run["losses"]["ours"][0] - 0.5
    differences = run["largest_loss_difference"]
    assert differences["ours"] < 1e-4 < differences["other batches"]
    assert run["step_peak_bytes"]["torch"] > 0
    assert run["same_tokens"] == 1
    assert "| 2 x 128, 0.468 M | float32, eager |" in printed


@pytest.mark.process
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda:0", marks=pytest.mark.gpu)])
def test_a_policy_gets_most_for_correct_kernels_and_least_for_cheats(device):
    example = REPOSITORY / "examples" / "training" / "scripted_policy.py"
    found = json.loads(run_python(example, "--device", device, "--json"))
    rewards = {kind: {each["reward"] for each in found if each["kind"] == kind} for kind in KINDS}
    assert len(found) == 50
    assert rewards["cheat"] == {CHEAT_REWARD}
    assert rewards["wrong"] == rewards["crash"] == {0.0}
    assert CHEAT_REWARD < 0 < min(rewards["correct"]) <= max(rewards["correct"]) <= 1


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """A folder with what the wheel installs."""
    built, site = tmp_path_factory.mktemp("wheel"), tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", str(built), str(REPOSITORY)], check=True)
    (wheel,) = built.glob("*.whl")
    subprocess.run([*pip, "install", "--no-deps", "--target", str(site), str(wheel)], check=True)
    return site


def run(site: Path, folder: Path, *arguments: str, python: tuple[str, str] = ("-m", "fib_rmsnorm")) -> str:
    """The command line of the installed wheel, in a folder outside any registry."""
    return run_python(*python, *arguments, cwd=folder, PYTHONPATH=str(site))


@pytest.mark.process
def test_init_and_bench_from_the_wheel(site, tmp_path):
    where = "import fib_rmsnorm; print(fib_rmsnorm.__file__)"
    assert run(site, tmp_path, python=("-c", where)).startswith(str(site))
    run(site, tmp_path, "init", "demo")
    chosen = ("--solutions=rmsnorm_cpp_simd_v1,rmsnorm_python_torch_v1", "--batch-sizes=8", "--device=cpu")
    run(site, tmp_path / "demo", "bench", *chosen, "--iterations=3", "--output=traces.json")
    traces = json.loads((tmp_path / "demo" / "traces.json").read_text())
    assert [trace["evaluation"]["status"] for trace in traces] == ["PASSED"] * 2
    run(site, tmp_path / "demo", "validate")
    run(site, tmp_path / "demo", "new", "triton", "kernel.py")
    run(site, tmp_path / "demo", "new", "cpp", "kernel.cpp")


@pytest.mark.process
@pytest.mark.skipif(not (REPOSITORY / ".git").exists(), reason="needs the repository's history")
def test_a_release_checks_a_clean_clone_and_dates_its_changelog(tmp_path):
    def git(*arguments: str) -> None:
        identity = ("-c", "user.name=tester", "-c", "user.email=tester@example.com")
        subprocess.run(["git", *identity, *arguments], cwd=tmp_path / "clone", check=True)

    subprocess.run(["git", "clone", "-q", REPOSITORY, tmp_path / "clone"], check=True)
    git("rm", "-q", "--ignore-unmatch", "changes/+*")
    (tmp_path / "clone" / "CHANGELOG.md").write_text("## 0.1.0 (unreleased)\n")
    release = [sys.executable, "tools/release.py"]
    refused = run_process(release, cwd=tmp_path / "clone")
    assert refused.returncode == 1 and refused.stderr.startswith("commit or remove these first:\n")
    git("commit", "-qam", "Prepare a release")
    assert "is right. Next: git commit" in run_python(*release[1:], cwd=tmp_path / "clone")
    assert (tmp_path / "clone" / "CHANGELOG.md").read_text() == f"## 0.1.0 ({date.today()})\n"
