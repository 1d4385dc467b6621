"""`tune`, on a CPU: what it tries, chooses, writes and refuses."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from fib_rmsnorm.languages import LANGUAGES
from fib_rmsnorm.registry.sources.draft import draft_solution
from fib_rmsnorm.registry.sources.kernel_file import KernelFile
from fib_rmsnorm.tuning import sweep
from support.command_line import QUICK_OPTIONS
from support.record_faults import edit_text
from support.registries import RIGHT, SCALED
from support.tunable_solution import EMPTY, NAME, READER, TABLE, TUNE, choose, folder_of, kept, make_tunable


@pytest.fixture
def napping(tmp_path, monkeypatch):
    """At few rows it naps by `few`, at many rows by `many`; the limits forbid that it always naps."""
    registry = make_tunable(tmp_path / "registry")
    monkeypatch.chdir(registry.root)
    return registry


@pytest.mark.process
def test_a_good_choice_is_found_and_written(fib, napping):
    outcome = fib("tune", NAME, "--device", "cpu", "--batch-sizes", "1,8", "--set", "few=0,1", "--set", "many=0,1")
    assert outcome.code == 0, outcome.err
    assert choose(napping, 1)["few"] == 0
    assert choose(napping, 1000)["many"] == 0
    text = (folder_of(napping) / TABLE).read_text()
    assert "timer cpu_clock, 3 combinations" in text
    assert "// 1: " in text
    assert any(line.startswith("batch=8      few=1, many=0  PASSED") for line in outcome.lines)
    table = outcome.lines[outcome.lines.index("rmsnorm_d128: median latency (* the fastest at a batch size)") + 1 :]
    assert table[0].split() == ["few", "many", "batch=1", "batch=8"]
    assert sum(line.count("*") for line in table) >= 2, "one at each batch size, and more where some tie"


@pytest.fixture
def read_only(napping):
    root = napping.root
    if subprocess.run(["mount", "--bind", root, root], capture_output=True, check=False).returncode:
        pytest.skip("this user may mount nothing")
    subprocess.run(["mount", "-o", "remount,ro,bind", root], check=True)
    yield root
    subprocess.run(["umount", "--lazy", root], check=True)


@pytest.mark.parametrize("command", [("tune", NAME, "--device", "cpu"), ("bench", *QUICK_OPTIONS)])
def test_what_cannot_be_recorded_is_not_measured(fib, read_only, command):
    """Where a registry is mounted for reading alone, a command says so at once."""
    outcome = fib(*command)
    path = read_only / ("tuning" if command[0] == "tune" else "traces") / "tester/norm/rmsnorm_d128"
    assert outcome.refusal.startswith(f"cannot write {path}")
    assert f": {read_only} is read-only" in outcome.refusal


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_it_says_in_a_pipe_what_it_does(fib, napping, options):
    """Building takes minutes for some languages."""
    outcome = fib("tune", NAME, "--device", "cpu", "--batch-sizes", "1,8", "--set", "few=9", "--dry-run", *options)
    assert outcome.code == 1
    assert outcome.err.splitlines()[1:4] == [
        "1 combination at batch=1, batch=8",
        "building 1 combination",
        "building 1 combination",  # again, because a failure ended its worker
    ]


@pytest.mark.process
def test_groups_are_reported_in_a_pipe(fib, napping, monkeypatch):
    monkeypatch.setattr(sweep, "_MOST_AT_ONCE", 1)
    outcome = fib("tune", NAME, "--device", "cpu", "--batch-sizes", "1", "--set", "few=0", "--dry-run")
    assert outcome.code == 0, outcome.err
    told = outcome.err.splitlines()
    assert told.count("1 of 2 combinations at batch=1") == 2
    assert any(line.endswith("2 combinations at batch=1, once more") for line in told)
    assert (folder_of(napping) / TABLE).read_text() == EMPTY
    assert [trace.evaluation.parameters["many"] for trace in kept(napping)][:2] in ([0, 1], [1, 0])


def test_an_interpreter_does_not_promise_times(fib, napping, monkeypatch):
    monkeypatch.setitem(LANGUAGES["python"].on, "cpu", ("interpret", ""))
    options = ("--batch-sizes", "1,8", "--set", "few=0,9", "--set", "many=0")
    outcome = fib("tune", NAME, "--device", "cpu", *options)
    assert outcome.code == 0, outcome.err
    told = outcome.err.splitlines()
    assert told[0].endswith("judged on at most 4 rows, not timed; no table will be written")
    assert told[-1] == "rmsnorm_d128: 1 of 2 correct at batch=1; nothing was timed"
    assert "noisy" not in outcome.err
    assert (folder_of(napping) / TABLE).read_text() == EMPTY


@pytest.mark.parametrize(("few", "code"), [pytest.param("9,0", 0, marks=pytest.mark.process), ("9", 1)])
def test_a_combination_that_fails_is_not_chosen_and_if_all_fail_nothing_is_written(fib, napping, few, code):
    options = ("--set", f"few={few}", "--set", "many=0")
    outcome = fib("tune", NAME, "--device", "cpu", "--batch-sizes", "1", *options)
    assert outcome.code == code
    assert "RUNTIME_ERROR" in outcome.out and "1 failed" in outcome.err
    if code:
        assert (folder_of(napping) / TABLE).read_text() == EMPTY
    else:
        assert choose(napping, 1) == {"few": 0, "many": 0}


@pytest.mark.process
def test_a_folder_outside_the_registry(fib, napping, tmp_path):
    folder = tmp_path / "mine"
    shutil.copytree(folder_of(napping), folder)
    outcome = fib("tune", folder, "--definitions", "rmsnorm_d128", "--device", "cpu", "--batch-sizes", "1", "--json")
    assert outcome.code == 0, outcome.err
    assert [json.loads(line)["evaluation"]["parameters"] for line in outcome.out.splitlines()[:1]] == [
        {"few": 0, "many": 1}
    ]
    assert "// 1: " in (folder / TABLE).read_text()
    assert not (napping.root / "tuning").exists()


NUMBERS = """\
# NAPS = 9 is too many
import time
import torch
NAPS: int = 7

def run(x, weight, eps, more=2 * 1):
    naps = NAPS + more - 2
    time.sleep(0.004 * naps)
"""


@pytest.mark.process
def test_numbers_of_a_file_are_tried_and_the_file_stays(fib, registry):
    kernel = NUMBERS + RIGHT.partition("eps):\n")[2]
    Path("norm.py").write_text(kernel)
    options = ("--device", "cpu", "--batch-sizes", "8")
    outcome = fib("tune", "norm.py", "--set", "NAPS=2,0", *options)
    assert outcome.code == 0, outcome.err
    rows = [line.split() for line in outcome.lines[-2:]]
    assert [row[:2] for row in rows] == [["0", "*"], ["2", rows[1][1]]]
    assert Path("norm.py").read_text() == kernel and not Path("tuning").exists()
    for wrong in (("--set", "more=1"), ()):
        assert "NAPS" in fib("tune", "norm.py", *wrong, *options).refusal
    assert "names its own function" in fib("tune", NAME, "--call", "run", *options).refusal


def test_registered_workloads_are_those_to_try(fib, registry):
    """A Definition whose scalar has no default gets no others."""
    registry.write_definition(SCALED)
    Path("norm.py").write_text(f"N = 1\n{SCALED.reference}")
    tune = ("tune", "norm.py", "--set", "N=2", "--definitions", "scaled", "--device", "cpu")
    assert "has no Workload; add one with a value of factor" in fib(*tune).refusal
    assert fib("workload", "--definition", "scaled", "--batch-sizes", "2,3", "--set", "factor=2").code == 0
    for sizes, tried in (((), "batch=2, batch=3"), (("--batch-sizes", "3"), "batch=3")):
        outcome = fib(*tune, *sizes)
        assert outcome.code == 0 and f"1 combination at {tried}" in outcome.err.splitlines()


@pytest.mark.process
def test_what_the_interpreter_cannot_run_is_skipped_and_its_code_shown(fib, registry):
    field = Path(__file__).parents[1] / "field" / "triton_libdevice.py"
    Path("norm.py").write_text(field.read_text().replace("triton.next_power_of_2(x.shape[1])", "BLOCK=128"))
    outcome = fib("tune", "norm.py", "--set", "BLOCK=128", "--batch-sizes", "8", "--device", "cpu")
    assert outcome.code == 2 and "Triton's interpreter cannot call libdevice" in outcome.err
    assert outcome.lines[-2].split()[:2] == ["BLOCK", "threads/block"] and outcome.lines[-1].split()[0] == "128"


def test_a_kernel_file_brings_its_table(napping):
    definition = napping.definition("rmsnorm_d128")
    draft = draft_solution(napping, KernelFile(folder_of(napping) / "kernel.py"), definition)
    assert {source.path for source in draft.sources} == {"kernel.py", READER.name, TABLE}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("snoring_v1",), f"no tunable Solution 'snoring_v1' with sources in {{root}} (available: {NAME})"),
        ((NAME, "--set", "naps=1"), "napping_v1 has no such parameter (available: few, many)"),
        ((NAME, "--set", "few=x"), "--set: 'x' is not a nonnegative integer"),
        ((NAME, "--set", "few"), "--set 'few': expected NAME=VALUE"),
        ((NAME, "--set", "few=1", "--set", "many=1"), "no combination of its parameters is within the limits"),
        ((NAME, "--definitions", "rmsnorm_d999"), "no Definition matches 'rmsnorm_d999'"),
        ((NAME, "--batch-sizes", "0"), "'0' is not a positive integer"),
    ],
)
def test_wrong_requests(fib, napping, arguments, complaint):
    assert complaint.format(root=napping.root) in fib("tune", *arguments, "--device", "cpu").refusal


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('"choices.inc"', '"../choices.inc"', "tune.table: String should match pattern"),
        ('"choices.inc"', '"choices.json"', "tune.table: String should match pattern"),
        ("few = [0, 1]", "few = []", "tune.parameters.few: List should have at least 1 item"),
        ("few = [0, 1]", '"x y" = [0, 1]', "tune.parameters.x y"),
        ('["few", "many"]', '["nobody"]', "a limit names 'nobody', which is not a parameter"),
        (TUNE, "", "nothing to tune; add a [tune]"),
    ],
)
def test_wrong_manifests(fib, napping, old, new, complaint):
    edit_text(folder_of(napping) / "solution.toml", old, new)
    assert complaint in fib("tune", NAME, "--device", "cpu").refusal
