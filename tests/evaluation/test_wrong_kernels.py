"""Every wrong kernel gets the status that its table names, and harms no other.

`make test` evaluates one for each guard, `make thorough` the others and those in C++, CUDA, Triton and TileLang, whose
compilers take most of the time, and `make nightly` all of them at another batch.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from support.paths import REPOSITORY
from support.wrong_kernels import (
    BATCH_SIZES_ON_CUDA,
    EXPECTED,
    KERNELS,
    PATIENCE_S,
    TARGETS,
    Outcome,
    assert_expected,
    assert_judged,
    assert_unharmed,
    evaluate_all,
    kernels_for,
)

# All of a fixture's kernels are evaluated when the first test asks for it.
pytestmark = pytest.mark.timeout(2400)

NAMES = [name for name in kernels_for("cpu") if KERNELS[name].language == "python"]
COMPILED = [name for name in kernels_for("cpu") if KERNELS[name].language != "python"]
ON_CUDA = kernels_for("cuda")


def one_for_each_guard() -> list[str]:
    """The first of its kernels that need not be waited for."""
    first: dict[str, str] = {}
    for name in NAMES:
        if EXPECTED[name].timeout_s == PATIENCE_S:
            first.setdefault(KERNELS[name].guard, name)
    return [*first.values()]


FEW = one_for_each_guard()
OTHERS = [name for name in NAMES if name not in FEW]
RUNS: dict[str, tuple[list[str], int, Any]] = {
    "those of the guards": (FEW, 32, []),
    "the others": (OTHERS, 32, pytest.mark.process),
    "all, of a row": (NAMES, 1, pytest.mark.fuzz),
    "compiled": (COMPILED, 32, pytest.mark.compile),
    "compiled, of a row": (COMPILED, 1, pytest.mark.fuzz),
}
"""The kernels of a run, its batch, and the marks of its tests."""


@pytest.fixture(scope="module")
def outcome_of(tmp_path_factory) -> Callable[[str], Outcome]:
    """Evaluate the kernels of a run once, for whichever of its tests comes first."""

    @cache
    def evaluate(run: str) -> Outcome:
        names, batch, _ = RUNS[run]
        return evaluate_all(tmp_path_factory.mktemp("wrong") / "registry", names, "cpu", (batch,))

    return evaluate


@pytest.mark.parametrize(
    ("run", "kernel", "batch"),
    [
        pytest.param(run, name, batch, marks=marks, id=f"{name}-{batch}")
        for run, (names, batch, marks) in RUNS.items()
        for name in names
    ],
)
def test_gets_its_status_and_harms_no_solution_after_it(outcome_of, run, kernel, batch):
    assert_judged(outcome_of(run), kernel, batch)


@pytest.mark.parametrize("run", [pytest.param(run, marks=marks) for run, (*_, marks) in RUNS.items()])
def test_leaves_no_process_behind(outcome_of, run):
    assert outcome_of(run).left_behind == []


@pytest.fixture(scope="module")
def outcome_on_cuda(tmp_path_factory) -> Outcome:
    return evaluate_all(tmp_path_factory.mktemp("wrong") / "registry", ON_CUDA, "cuda:0", BATCH_SIZES_ON_CUDA)


@pytest.mark.gpu
@pytest.mark.parametrize("batch", BATCH_SIZES_ON_CUDA)
@pytest.mark.parametrize("kernel", ON_CUDA)
def test_gets_its_status_on_a_gpu(outcome_on_cuda, kernel, batch):
    assert_expected(outcome_on_cuda.evaluations[kernel, batch], EXPECTED[kernel].on("cuda"))
    assert_unharmed(outcome_on_cuda.innocents[kernel, batch])


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
