"""tune, on a CPU: solutions whose parameter is how long they take."""

from __future__ import annotations

import json
import shutil

import pytest
from registries import REPOSITORY, add_sources, make_registry, pack_all, python_manifest, run_cli

from fib_rmsnorm.evaluation.building.native import find_cuda_home
from fib_rmsnorm.registry import Registry
from fib_rmsnorm.schema import Trace

SHIPPED = REPOSITORY / "solutions" / "fib-rmsnorm" / "norm" / "rmsnorm_d4096"
NAME = "napping_v1"
KERNEL = """\
import time

import torch

from .choices import find_choice


def run(x, weight, eps):
    batch, hidden = x.shape
    choice = find_choice(batch, hidden, x.element_size()) or {"few": 0, "many": 0}
    if choice["few"] == 9:
        raise ValueError("9 is too many")
    time.sleep(0.004 * choice["few" if batch < 4 else "many"])
    x_fp32 = x.float()
    rstd = torch.rsqrt(x_fp32.pow(2).mean(dim=-1, keepdim=True) + eps)
    return (x_fp32 * rstd * weight.float()).to(x.dtype)
"""
EMPTY = "def find_choice(*_):\n    return None\n"
TUNE = """
[tune]
table = "choices.py"
parameters = { few = [0, 1], many = [1, 0] }
limits = [{ product = ["few", "many"], least = 0, most = 0 }]
"""


def make_napping(root):
    registry = make_registry(root, batch_sizes=(1, 8))
    add_sources(registry, NAME, {"kernel.py": KERNEL, "choices.py": EMPTY}, python_manifest(NAME) + TUNE)
    pack_all(registry)
    return registry


@pytest.fixture
def napping(tmp_path, monkeypatch):
    """At few rows it naps by `few`, at many rows by `many`; the limits forbid that it always naps."""
    registry = make_napping(tmp_path / "registry")
    monkeypatch.chdir(registry.root)
    return registry


def folder_of(registry):
    return registry.layout.solutions / "tester" / "norm" / "rmsnorm_d128" / NAME


def kept(registry):
    path = registry.layout.tuning_file("tester", "norm", "rmsnorm_d128", NAME)
    return [Trace.model_validate_json(line) for line in path.read_text().splitlines()]


def choose(registry, batch):
    names: dict[str, object] = {}
    exec((folder_of(registry) / "choices.py").read_text(), names)
    return names["find_choice"](batch, 128, 2)


def test_a_good_way_is_found_and_written(fib, napping):
    outcome = fib("tune", NAME, "--device", "cpu", "--batch-sizes", "1,8", "--set", "few=0,1", "--set", "many=0,1")
    assert outcome.code == 0, outcome.err
    assert choose(napping, 1)["few"] == 0
    assert choose(napping, 1000)["many"] == 0
    text = (folder_of(napping) / "choices.py").read_text()
    assert "timer cpu_clock, 3 combinations" in text
    assert "# 1: " in text
    assert any(line.startswith("batch=8      few=1, many=0  PASSED") for line in outcome.lines)
    table = outcome.lines[outcome.lines.index("rmsnorm_d128: median latency (* the best at a batch)") + 1 :]
    assert table[0].split() == ["few", "many", "batch=1", "batch=8"]
    assert sum(line.count("*") for line in table) == 2


def test_a_choice_changes_where_another_is_better(fib, napping):
    """Without (0, 0) few rows want one, many rows the other; between 1 and 16 the border is 4."""
    manifest = folder_of(napping) / "solution.toml"
    manifest.write_text(manifest.read_text().replace("least = 0, most = 0", "least = 2, most = 2"))
    options = ("--set", "few=1,2", "--set", "many=1,2")
    assert fib("tune", NAME, "--device", "cpu", "--batch-sizes", "1,16", *options).code == 0
    assert choose(napping, 4) == {"few": 1, "many": 2}
    assert choose(napping, 5) == {"few": 2, "many": 1}


@pytest.fixture(scope="module")
def tuned_once(tmp_path_factory):
    registry = make_napping(tmp_path_factory.mktemp("tuned") / "registry")
    found = run_cli("tune", NAME, "--device", "cpu", "--batch-sizes", "1", cwd=registry.root)
    assert found.returncode == 0, found.stderr
    return registry


@pytest.fixture
def tuned(tuned_once, tmp_path, monkeypatch):
    """A copy, to do with as a test likes."""
    root = tmp_path / "registry"
    shutil.copytree(tuned_once.root, root)
    monkeypatch.chdir(root)
    return Registry(root)


def test_results_are_kept_as_traces_with_their_parameters(tuned):
    traces = kept(tuned)
    assert {trace.solution for trace in traces} == {NAME}
    assert [trace.evaluation.parameters for trace in traces] == [
        {"few": 0, "many": 1}, {"few": 0, "many": 0}, {"few": 1, "many": 0},
    ]  # fmt: skip
    assert all(trace.evaluation.performance.latency_ms > 0 for trace in traces)
    assert tuned.traces() == []  # no Trace of the dataset


def test_what_reads_the_table_is_packed_again(fib, tuned):
    (solution,) = tuned.solutions().values()
    packed = {source.path: source.content for source in solution.sources}
    assert packed["choices.py"] == (folder_of(tuned) / "choices.py").read_text()
    assert fib("validate").code == 0


def test_the_table_is_made_again_from_what_is_kept(fib, tuned):
    path = folder_of(tuned) / "choices.py"
    before = path.read_text()
    path.write_text(EMPTY)
    assert fib("tune", NAME, "--reuse").code == 0
    assert path.read_text() == before


def test_what_other_sources_measured_is_not_reused(fib, tuned):
    path = folder_of(tuned) / "kernel.py"
    path.write_text(path.read_text() + "\n# edited\n")
    outcome = fib("tune", NAME, "--reuse")
    assert outcome.code == 2
    assert "no timings are kept of its sources as they are" in outcome.err


def test_timings_of_a_definition_that_nobody_knows_are_not_lost(fib, tuned):
    """Their part of the table could not be written again."""
    (kept,) = (tuned.root / "tuning").rglob("*.jsonl")
    sister = kept.parents[1] / "rmsnorm_d999" / kept.name
    sister.parent.mkdir()
    sister.write_bytes(kept.read_bytes())
    before = (folder_of(tuned) / "choices.py").read_text()
    outcome = fib("tune", NAME, "--reuse")
    assert outcome.code == 2 and "timings of rmsnorm_d999, which the registry does not define" in outcome.err
    assert (folder_of(tuned) / "choices.py").read_text() == before


def test_another_definition_adds_to_the_table(fib, tuned):
    from fib_rmsnorm.operators import RmsNorm

    sister = tuned.write_definition(RmsNorm().define(256))
    manifest = folder_of(tuned) / "solution.toml"
    manifest.write_text(f'definitions = ["rmsnorm_d*"]\n{manifest.read_text()}')
    options = ("--definitions", "rmsnorm_d256", "--set", "few=0", "--set", "many=0")
    assert fib("tune", NAME, "--device", "cpu", "--batch-sizes", "1", *options).code == 0
    text = (folder_of(tuned) / "choices.py").read_text()
    assert "(128, 2): [" in text
    assert "(256, 2): [" in text
    sister.unlink()  # its name tells what it was
    assert fib("tune", NAME, "--reuse").code == 0
    assert (folder_of(tuned) / "choices.py").read_text() == text


def test_a_dry_run_leaves_the_table(fib, napping):
    assert fib("tune", NAME, "--device", "cpu", "--batch-sizes", "1", "--dry-run", "--set", "few=0").code == 0
    assert (folder_of(napping) / "choices.py").read_text() == EMPTY
    assert len(kept(napping)) == 2


def test_a_way_that_fails_is_not_chosen(fib, napping, tmp_path):
    output = tmp_path / "tried.jsonl"
    options = ("--set", "few=9,0", "--set", "many=0", "--output", output)
    outcome = fib("tune", NAME, "--device", "cpu", "--batch-sizes", "1", *options)
    assert outcome.code == 0
    assert "RUNTIME_ERROR" in outcome.out
    assert "1 failed" in outcome.err
    assert choose(napping, 1) == {"few": 0, "many": 0}
    assert len(output.read_text().splitlines()) == 2


def test_if_all_fail_nothing_is_written(fib, napping):
    outcome = fib("tune", NAME, "--device", "cpu", "--batch-sizes", "1", "--set", "few=9", "--set", "many=0")
    assert outcome.code == 1
    assert (folder_of(napping) / "choices.py").read_text() == EMPTY


def test_a_folder_outside_the_registry(fib, napping, tmp_path):
    folder = tmp_path / "mine"
    shutil.copytree(folder_of(napping), folder)
    outcome = fib("tune", folder, "--definitions", "rmsnorm_d128", "--device", "cpu", "--batch-sizes", "1", "--json")
    assert outcome.code == 0, outcome.err
    assert [json.loads(line)["evaluation"]["parameters"] for line in outcome.out.splitlines()[:1]] == [
        {"few": 0, "many": 1}
    ]
    assert "# 1: " in (folder / "choices.py").read_text()
    assert not (napping.root / "tuning").exists()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--set", "naps=1"), "no such parameter of napping_v1 (there: few, many)"),
        (("--set", "few=x"), "write it like threads=128,256"),
        (("--set", "few"), "write it like threads=128,256"),
        (("--set", "few=1", "--set", "many=1"), "no combination of its parameters is within its limits"),
        (("--definitions", "rmsnorm_d999"), "no definition matches 'rmsnorm_d999'"),
        (("--batch-sizes", "0"), "'0' is no positive whole number"),
        (("--reuse",), "no timings are kept"),
    ],
)
def test_wrong_requests(fib, napping, arguments, complaint):
    outcome = fib("tune", NAME, "--device", "cpu", *arguments)
    assert outcome.code == 2
    assert complaint in outcome.err
    assert outcome.err.count("\n") == 1


def test_an_unknown_solution_names_those_that_can_be_tuned(fib, napping):
    outcome = fib("tune", "snoring_v1")
    assert outcome.code == 2
    assert f"(tunable: {NAME})" in outcome.err


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('"choices.py"', '"../choices.py"', "is no .py or .h file in the folder"),
        ('"choices.py"', '"choices.json"', "is no .py or .h file in the folder"),
        ("few = [0, 1]", "few = [0, 0]", "the values of 'few' must be different"),
        ("few = [0, 1]", '"x y" = [0, 1]', "'x y' is no name of a parameter"),
        ('["few", "many"]', '["nobody"]', "a limit names 'nobody', which is no parameter"),
        (TUNE, "", "declares nothing to tune"),
    ],
)
def test_wrong_manifests(fib, napping, old, new, complaint):
    manifest = folder_of(napping) / "solution.toml"
    manifest.write_text(manifest.read_text().replace(old, new))
    outcome = fib("tune", NAME, "--device", "cpu")
    assert outcome.code == 2
    assert complaint in outcome.err


def test_interpreted_times_choose_nothing(fib, tmp_path, monkeypatch):
    """But what the compiled code says is told: here for the textbook's kernel, by block size."""
    pytest.importorskip("triton")
    import torch

    if torch.cuda.is_available():
        pytest.skip("a GPU measures")
    registry = make_registry(tmp_path / "registry", 4096)
    monkeypatch.chdir(registry.root)
    shutil.copytree(REPOSITORY / "examples" / "block_size", tmp_path / "block_size")
    before = (tmp_path / "block_size" / "choices.py").read_text()
    outcome = fib("tune", tmp_path / "block_size", "--batch-sizes", "1", "--set", "block=512,4096")
    assert outcome.code == 0, outcome.err
    assert "No table written" in outcome.err
    assert (tmp_path / "block_size" / "choices.py").read_text() == before
    rows = {line.split()[0]: line.split()[1:] for line in outcome.lines if line.split()[2:3] == ["interpreted"]}
    # x is read twice unless the block holds the whole row: then the compiler keeps it.
    assert rows["4096"][2:5] == ["32", "512", "256"]
    assert int(rows["512"][3]) > 700


def make_kernel(tmp_path, name, table):
    """The shipped kernel with another table."""
    shutil.copytree(SHIPPED / name, tmp_path / name)
    (tmp_path / name / table[0]).write_text(table[1])
    return tmp_path / name


@pytest.mark.parametrize(
    ("name", "parameters", "block"),
    [
        ("rmsnorm_cuda_vec16_v1", {"threads": 64, "rows": 4}, [64, 4, 1]),
        ("rmsnorm_cuda_vec16_v1", {"threads": 256, "rows": 2}, [256, 2, 1]),
        ("rmsnorm_triton_row_v1", {"rows": 2, "warps": 2, "tied": 1}, [128, 1, 1]),
        ("rmsnorm_tilelang_row_v1", {"rows": 2, "warps": 4}, [256, 1, 1]),
    ],
)
def test_shipped_kernels_launch_as_their_table_says(fib, tmp_path, monkeypatch, name, parameters, block):
    from fib_rmsnorm.evaluation.tuning.table import Columns, Entry, Provenance, Rung, render_table
    from fib_rmsnorm.registry.manifest import read_manifest

    language = name.split("_")[1]
    if language != "triton" and find_cuda_home() is None:
        pytest.skip("needs nvcc")
    if language != "cuda":
        pytest.importorskip(language)
    tuning = read_manifest(SHIPPED / name / "solution.toml").tune
    key = {"hidden": 4096, "itemsize": 2}
    columns = Columns(tuning.table, name, tuple(key), tuple(tuning.parameters))
    entry = Entry(key, (Rung(100, parameters), Rung(None, {each: v[0] for each, v in tuning.parameters.items()})))
    where = Provenance("NVIDIA H200", 132, "2026-11-21", "cupti", 12)
    monkeypatch.chdir(make_registry(tmp_path / "registry", 4096).root)
    kernel = make_kernel(tmp_path, name, (tuning.table, render_table(columns, [entry], where)))
    outcome = fib("explain", kernel, "--arch", "sm_90", "--batch-sizes", "8,100,1000", "--json")
    assert outcome.code == 0, outcome.err
    blocks = [launch["block"] for launch in json.loads(outcome.out)["launches"]]
    assert blocks[:2] == [block, block]
    assert blocks[2] != block


@pytest.mark.gpu
def test_a_kernel_tuned_on_a_gpu(fib, tmp_path, monkeypatch):
    monkeypatch.chdir(make_registry(tmp_path / "registry", 4096).root)
    shutil.copytree(REPOSITORY / "examples" / "block_size", tmp_path / "block_size")
    outcome = fib("tune", tmp_path / "block_size", "--batch-sizes", "1,4096", "--set", "block=128,4096")
    assert outcome.code == 0, outcome.err
    assert '"block": 4096' in (tmp_path / "block_size" / "choices.py").read_text()
    assert "At batch=4096, as compiled for" in outcome.out
