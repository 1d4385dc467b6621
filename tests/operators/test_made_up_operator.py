"""An operator is one file: with it in the package, every command knows the operator. Nothing else is touched."""

from __future__ import annotations

import json
import re
import shutil
from functools import partial
from pathlib import Path

import pytest

from support.command_line import QUICK_OPTIONS, run_cli, run_python
from support.made_up_operator import ROW_KINDS
from support.paths import REPOSITORY
from support.registries import make_empty_registry, python_manifest

MODULE = REPOSITORY / "tests" / "support" / "made_up_operator.py"
ADDED = "fib_rmsnorm/operators/scaled_shift.py"
DEFINITION = "scaled_shift_plain_d256"

RIGHT = """\
def run(x, scale, largest, shift):
    wide = x.float()
    y = wide * scale.float() / largest[:, None] + shift
    return y.to(x.dtype), (wide * scale).sum(dim=-1)
"""
KERNELS = {
    "right": RIGHT,
    "overflows": RIGHT.replace("wide * scale.float() /", "(x * scale).float() /"),
    "own_total": RIGHT.replace("(wide * scale)", "(x * scale)").replace("dim=-1)", "dim=-1).float()"),
    "own_largest": RIGHT.replace("largest[", "x.float().abs().amax(dim=-1)["),
    "no_shift": RIGHT.replace(" + shift", " + 1"),
}


@pytest.fixture(scope="module")
def copy(tmp_path_factory) -> Path:
    """A copy of the repository to which the operator's file was added: no link, which a registry would refuse."""
    root = tmp_path_factory.mktemp("made_up") / "repository"
    root.mkdir()
    for path in (*REPOSITORY.glob("[!.]*"), REPOSITORY / ".clang-format"):
        if path.is_file():
            shutil.copy(path, root)
        else:
            shutil.copytree(path, root / path.name, ignore=shutil.ignore_patterns("__pycache__", "site"))
    shutil.copy(MODULE, root / ADDED)
    return root


@pytest.fixture(scope="module")
def fib(copy, tmp_path_factory):
    """Run commands of the copy in an empty registry."""
    root = make_empty_registry(tmp_path_factory.mktemp("made_up") / "registry").root
    run = partial(run_cli, cwd=root, PYTHONPATH=str(copy), FIB_RMSNORM_CACHE=str(root / "cache"))
    vars(run)["root"] = root
    return run


@pytest.fixture(scope="module")
def traces(fib) -> dict[str, dict]:
    """The evaluation of each kernel."""
    assert fib("define", "scaled_shift", "--hidden", "256").returncode == 0
    made = fib("workload", "--definition", DEFINITION, "--batch-sizes", "8", "--set", "shift=2")
    assert made.returncode == 0, made.stderr
    for name, source in KERNELS.items():
        folder = fib.root / "solutions" / "tester" / "norm" / DEFINITION / name
        folder.mkdir(parents=True)
        (folder / "solution.toml").write_text(python_manifest(name))
        (folder / "kernel.py").write_text(source)
    output = fib.root / "traces.jsonl"
    benched = fib("bench", *QUICK_OPTIONS, "--output", str(output))
    assert benched.returncode == 1, benched.stderr
    found = map(json.loads, Path(output).read_text().splitlines())
    return {each["solution"]: each["evaluation"] for each in found}


def test_define_lists_it_with_its_options(fib):
    told = fib("define", "--help").stdout
    assert "scaled_shift: y = x * scale / max|x| + shift" in told and "A word for the name. Only of" in told
    made = json.loads(fib("define", "scaled_shift", "--tag", "other", "--hidden", "128", "--json").stdout)
    assert made["name"] == "scaled_shift_other_d128"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("rmsnorm", "--tag", "x"), "--tag: rmsnorm has no such option (available: --hidden, --dtype)"),
        pytest.param(("scaled_shift", "--tag", "7"), "tag must be a word, not '7'", marks=pytest.mark.process),
        (("shifted",), ", scaled_shift"),
        pytest.param(("scaled_shift", "--tga", "x"), "No such option: --tga", marks=pytest.mark.process),
    ],
)
def test_an_option_that_cannot_be_is_refused_in_a_line(fib, arguments, said):
    found = fib("define", *arguments)
    assert found.returncode == 2 and said in found.stderr and len(found.stderr.splitlines()) == 1


def test_new_writes_its_kernel_and_the_reference_in_another_language(fib):
    assert fib("define", "scaled_shift", "--hidden", "256").returncode == 0
    kinds = {}
    for language in ("python", "triton"):
        written = fib("new", language, f"{language}_kernel.py", "--definition", DEFINITION, "--json")
        kinds[language] = json.loads(written.stdout)["kind"]
    assert kinds == {"python": "kernel", "triton": "reference"}


@pytest.mark.process
def test_its_kernels_are_judged_by_it_and_reports_know_it(fib, traces):
    assert {each["judged_by"] for each in traces.values()} == {"scaled_shift"}
    assert {name: each["status"] for name, each in traces.items()} == {
        "right": "PASSED",
        "own_largest": "PASSED",
        "overflows": "INCORRECT_NUMERICAL",
        "own_total": "INCORRECT_NUMERICAL",
        "no_shift": "INCORRECT_NUMERICAL",
    }
    # The failing rows and the mistake of each output are named.
    lines = {name: each["log"].splitlines() for name, each in traces.items()}
    assert any("hard rows: y: " in line and ROW_KINDS[0] in line and "inf" in line for line in lines["overflows"])
    assert any("hard rows: total: " in line and ROW_KINDS[0] in line for line in lines["own_total"])
    assert lines["own_total"][0] == "total: the output equals the sum of products in float16: multiply in float32"
    assert lines["no_shift"][0] == "y: the output equals one with a shift of 1: use the shift of each call"
    # A total that cancels may have the rounding of its terms: by its dtype's tolerance alone, each 0 would be wrong.
    hard = next(each for each in traces["right"]["correctness"]["extra"]["cases"] if each["case"] == "hard rows")
    assert hard["ulp"]["total"]["maximum"] > 1000
    told = fib("report", "--definitions", DEFINITION)
    assert told.returncode == 0 and "tokens=8" in told.stdout and "right" in told.stdout
    assert "4 operations an element" in fib("analyze", "--definitions", DEFINITION).stdout


OF_ALL_OPERATORS = (
    "tests/evaluation/tensors/test_inputs.py",
    "tests/operators/test_own_definitions.py",
    "tests/registry/sources/test_starting_kernel.py",
)
"""The tests that list the operators. The rest know them by name."""


def test_it_fails_no_test(copy):
    """Who adds one as docs/definitions_of_your_own.md says finds the tests green."""
    chosen = ("-k", "scaled_shift or formatted")
    command = ("-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *chosen, *OF_ALL_OPERATORS)
    assert " passed" in run_python(*command, cwd=copy, PYTHONPATH=str(copy))


@pytest.mark.compile  # docs/explained.md shows what compilers make of kernels
def test_the_checks_ask_for_nothing_but_the_pages_that_make_fix_writes(copy):
    run = partial(run_python, cwd=copy, PYTHONPATH=str(copy))
    page = copy / "docs" / "cli.md"
    assert "scaled_shift" not in page.read_text()
    run("tools/generate_docs.py")
    assert "scaled_shift: y = x * scale / max|x| + shift" in re.sub(r"\s+", " ", page.read_text())
    run("tools/generate_docs.py", "--check")
    run("tools/check_words.py")
    run("-m", "ruff", "check", "--ignore", "D1", ADDED)  # an example in the tests has few docstrings
    run("-m", "ruff", "format", "--check", ADDED)
    run("-m", "fib_rmsnorm", "validate", "--published")
