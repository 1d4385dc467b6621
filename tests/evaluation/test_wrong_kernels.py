"""Every wrong kernel in Python gets the status that its table names, and harms no other. On a GPU, so do all others."""

from __future__ import annotations

import re

import pytest

from support.paths import REPOSITORY
from support.wrong_kernels import (
    BATCH_SIZES_ON_CUDA,
    EXPECTED,
    KERNELS,
    ON_CPU,
    SLEEP_MS,
    Outcome,
    assert_expected,
    assert_unharmed,
    evaluate_all,
    kernels_for,
)

# All of a module's kernels are evaluated when its first test begins.
pytestmark = pytest.mark.timeout(900)

NAMES = [name for name in kernels_for("cpu") if KERNELS[name].language == "python"]
ON_CUDA = kernels_for("cuda")


@pytest.fixture(scope="module", params=ON_CPU)
def batch(request) -> int:
    return request.param


@pytest.fixture(scope="module")
def outcome(tmp_path_factory, batch) -> Outcome:
    return evaluate_all(tmp_path_factory.mktemp("wrong") / "registry", NAMES, "cpu", (batch,))


@pytest.mark.parametrize("kernel", NAMES)
def test_gets_its_status(outcome, kernel, batch):
    assert_expected(outcome.evaluations[kernel, batch], EXPECTED[kernel])


@pytest.mark.parametrize("kernel", NAMES)
def test_does_not_harm_the_solution_after_it(outcome, kernel, batch):
    innocent = outcome.innocents[kernel, batch]
    assert_unharmed(innocent)
    assert SLEEP_MS <= innocent.performance.latency_ms < 200 * SLEEP_MS


def test_leaves_no_process_behind(outcome):
    assert outcome.left_behind == []


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
