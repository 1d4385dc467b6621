"""Every wrong kernel in Python gets the status that its table names, and harms no other. On a GPU, so do all others.

`make test` evaluates one for each guard, `make slow` all of them.
"""

from __future__ import annotations

import re

import pytest

from support.paths import REPOSITORY
from support.wrong_kernels import (
    BATCH_SIZES,
    BATCH_SIZES_ON_CUDA,
    EXPECTED,
    KERNELS,
    PATIENCE_S,
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
ON_CUDA = kernels_for("cuda")
FEW_BATCH = 32


def one_for_each_guard() -> list[str]:
    """The first of its kernels that need not be waited for."""
    first: dict[str, str] = {}
    for name in NAMES:
        if EXPECTED[name].timeout_s == PATIENCE_S:
            first.setdefault(KERNELS[name].guard, name)
    return [*first.values()]


FEW = one_for_each_guard()


@pytest.fixture(scope="module")
def few(tmp_path_factory) -> Outcome:
    return evaluate_all(tmp_path_factory.mktemp("wrong") / "registry", FEW, "cpu", (FEW_BATCH,))


@pytest.fixture(scope="module")
def everything(tmp_path_factory) -> Outcome:
    return evaluate_all(tmp_path_factory.mktemp("wrong") / "registry", NAMES, "cpu", BATCH_SIZES)


@pytest.mark.parametrize("kernel", FEW)
def test_gets_its_status_and_harms_no_solution_after_it(few, kernel):
    assert_judged(few, kernel, FEW_BATCH)


@pytest.mark.slow
@pytest.mark.parametrize("batch", BATCH_SIZES)
@pytest.mark.parametrize("kernel", NAMES)
def test_each_gets_its_status_and_harms_no_solution_after_it(everything, kernel, batch):
    assert_judged(everything, kernel, batch)


def test_leaves_no_process_behind(few):
    assert few.left_behind == []


@pytest.mark.slow
def test_none_leaves_a_process_behind(everything):
    assert everything.left_behind == []


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
