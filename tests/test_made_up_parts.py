"""An operator is added by a file, a language, a timer and a GPU model in the places that docs/architecture.md names.

With them in the package, every command knows them. Nothing else is touched.
"""

import json
import re
import shutil
from functools import partial
from pathlib import Path

import pytest

from support.command_line import QUICK_OPTIONS, run_cli, run_python
from support.made_up_operator import ROW_KINDS
from support.paths import REPOSITORY
from support.registries import add_sources, make_registry, python_manifest

MODULE = REPOSITORY / "tests" / "support" / "made_up_operator.py"
ADDED = "fib_rmsnorm/operators/scaled_shift.py"
DEFINITION = "scaled_shift_plain_d256"
PARTS = {
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
IN_ROWS = {"in_rows": NORM, "wrong": NORM.replace(" + eps", ""), "broken": NORM.replace("->", "=")}

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
    """A copy of the repository to which the parts were added: no link, which a registry would refuse."""
    root = tmp_path_factory.mktemp("made_up") / "repository"
    root.mkdir()
    for path in (*REPOSITORY.glob("[!.]*"), REPOSITORY / ".clang-format"):
        if path.is_file():
            shutil.copy(path, root)
        else:
            shutil.copytree(path, root / path.name, ignore=shutil.ignore_patterns("__pycache__", "site"))
    shutil.copy(MODULE, root / ADDED)
    for file, text in PARTS.items():
        with (root / "fib_rmsnorm" / file).open("a") as added:
            added.write(text)
    return root


@pytest.fixture(scope="module")
def fib(copy, tmp_path_factory):
    """Run commands of the copy in a registry with Solutions in the language."""
    registry = make_registry(tmp_path_factory.mktemp("made_up") / "registry", batch_sizes=[8])
    for name, source in IN_ROWS.items():
        manifest = python_manifest(name).replace("python", "rows").replace("kernel.py", "kernel.rows")
        add_sources(registry, name, {"kernel.rows": source}, manifest)
    run = partial(run_cli, cwd=registry.root, PYTHONPATH=str(copy), FIB_RMSNORM_CACHE=str(registry.root / "cache"))
    vars(run)["registry"] = registry
    return run


@pytest.fixture(scope="module")
def traces(fib) -> dict[str, dict]:
    """The evaluation of each kernel."""
    assert fib("define", "scaled_shift", "--hidden", "256").returncode == 0
    made = fib("workload", "--definition", DEFINITION, "--batch-sizes", "8", "--set", "shift=2")
    assert made.returncode == 0, made.stderr
    for name, source in KERNELS.items():
        add_sources(fib.registry, name, {"kernel.py": source}, definition=DEFINITION)
    output = fib.registry.root / "traces.jsonl"
    benched = fib("bench", *QUICK_OPTIONS, "--definitions", "*", "--output", str(output))
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
    assert {traces[name]["judged_by"] for name in KERNELS} == {"scaled_shift"}
    assert {name: traces[name]["status"] for name in KERNELS} == {
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


@pytest.mark.process
def test_solutions_in_its_language_are_packed_built_judged_and_timed_by_its_timer(fib, traces):
    packed = fib("solve", "--languages", "rows", "--definitions", "*")
    assert packed.returncode == 0 and "in_rows (Rows)" in packed.stdout
    statuses = {name: traces[name]["status"] for name in IN_ROWS}
    assert statuses == {"in_rows": "PASSED", "wrong": "INCORRECT_NUMERICAL", "broken": "COMPILE_ERROR"}
    assert "an arrow is missing" in traces["broken"]["log"]
    timed = traces["in_rows"]["performance"]
    assert timed["timer"] == "sundial" and 0 < timed["latency_ms"] < 100
    told = fib("report", "--definitions", "*").stdout
    assert "Rows" in told and "sundial" in told
    devices = json.loads(fib("env", "--json").stdout)["devices"]
    assert devices[-1]["timer"] == "sundial" and devices[-1]["languages"]["rows"]["ability"] == "run"
    assert (
        json.loads(fib("new", "rows", "new.rows", "--definition", "rmsnorm_d128", "--json").stdout)["kind"]
        == "reference"
    )
    # The GPU is known by the Traces that it would have made.
    (file,) = fib.registry.layout.traces.rglob("rmsnorm_d128.jsonl")
    file.write_text(file.read_text().replace(traces["in_rows"]["environment"]["hardware"], "NVIDIA X9"))
    assert "12345" in fib("analyze", "--definitions", "*").stdout


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
