"""Every wrong kernel gets the status that its table names, and harms no other.

`make test` evaluates one for each guard, `make thorough` the others and those in C++, CUDA, Triton and TileLang, whose
compilers take most of the time, and `make nightly` all of them at another batch.
"""

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from support.kernels import BATCH_SIZES_ON_CUDA, list_cases, made_for
from support.paths import REPOSITORY
from support.wrong_kernels import EXPECTED, KERNELS, PATIENCE_S, TARGETS, Outcome, assert_judged, evaluate_all

# All of a fixture's kernels are evaluated when the first test asks for it.
pytestmark = pytest.mark.timeout(2400)

NAMES = [name for name in made_for("cpu", KERNELS) if KERNELS[name].language == "python"]
COMPILED = [name for name in made_for("cpu", KERNELS) if name not in NAMES]


def one_for_each_guard() -> list[str]:
    """The first of its kernels that need not be waited for."""
    first: dict[str, str] = {}
    for name in NAMES:
        if EXPECTED[name].timeout_s == PATIENCE_S:
            first.setdefault(KERNELS[name].guard, name)
    return [*first.values()]


FEW = one_for_each_guard()
OTHERS = [name for name in NAMES if name not in FEW]
RUNS: dict[str, tuple[list[str], str, tuple[int, ...], Any]] = {
    "those of the guards": (FEW, "cpu", (32,), []),
    "the others": (OTHERS, "cpu", (32,), pytest.mark.process),
    "all, of a row": (NAMES, "cpu", (1,), pytest.mark.fuzz),
    "compiled": (COMPILED, "cpu", (32,), pytest.mark.compile),
    "compiled, of a row": (COMPILED, "cpu", (1,), pytest.mark.fuzz),
    "on a GPU": (made_for("cuda", KERNELS), "cuda:0", BATCH_SIZES_ON_CUDA, pytest.mark.gpu),
}
"""The kernels of a run, its device and batches, and the marks of its tests."""


@pytest.fixture(scope="module")
def outcome_of(tmp_path_factory) -> Callable[[str], Outcome]:
    """Evaluate the kernels of a run once, for whichever of its tests comes first."""
    return cache(lambda run: evaluate_all(tmp_path_factory.mktemp("wrong") / "registry", *RUNS[run][:3]))


@pytest.mark.parametrize(("run", "kernel", "batch"), list_cases(RUNS))
def test_gets_its_status_and_harms_no_solution_after_it(outcome_of, run, kernel, batch):
    assert_judged(outcome_of(run), kernel, batch)


@pytest.mark.parametrize(
    "run", [pytest.param(run, marks=marks) for run, (_, device, _, marks) in RUNS.items() if device == "cpu"]
)
def test_leaves_no_process_behind(outcome_of, run):
    assert outcome_of(run).left_behind == []


def test_the_page_on_cheats_explains_every_guard():
    page = (REPOSITORY / "docs" / "cheats.md").read_text()
    section = page.partition("## The guards")[2].partition("\n## ")[0]
    guards = set(re.findall(r"^\| ([a-z ]+) \| ", section, re.MULTILINE)) - {"found by"}
    assert {kernel.guard for kernel in KERNELS.values()} == guards


NAMED = {name: value for name, value in TARGETS.items() if isinstance(value, TARGETS["Target"])}


# An attack on a missing name would fail for the wrong reason.
@pytest.mark.parametrize("target", NAMED.values(), ids=NAMED)
def test_what_wrong_kernels_attack_exists(target):
    source = (REPOSITORY / TARGETS["PACKAGE"] / f"{target.module.replace('.', '/')}.py").read_text()
    assert [name for name in target.path.split(".") if not re.search(rf"\b{name}\b", source)] == []


def test_no_kernel_names_the_package_by_itself():
    texts = {name: kernel.text + str(kernel.expected) for name, kernel in KERNELS.items()}
    assert [name for name, text in texts.items() if TARGETS["PACKAGE"] in text] == []
