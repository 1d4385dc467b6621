"""Every wrong kernel in Python gets the status that its folder names, and harms no other; all of them on a GPU."""

from __future__ import annotations

import re

import pytest
from registries import REPOSITORY
from wrong_kernel_runs import (
    BATCH_SIZES,
    EXPECTED,
    FOLDER,
    SLEEP_MS,
    SPECS,
    Outcome,
    assert_expected,
    assert_unharmed,
    evaluate_all,
    folders_for,
)

# All of a module's kernels are evaluated when its first test begins.
pytestmark = pytest.mark.timeout(900)

FOLDERS = [name for name in folders_for("cpu") if SPECS[name]["language"] == "python"]
ON_CUDA = folders_for("cuda")


@pytest.fixture(scope="module")
def outcome(tmp_path_factory) -> Outcome:
    return evaluate_all(tmp_path_factory.mktemp("wrong") / "registry", FOLDERS, "cpu")


@pytest.mark.parametrize("batch", BATCH_SIZES)
@pytest.mark.parametrize("folder", FOLDERS)
def test_gets_the_status_its_folder_names(outcome, folder, batch):
    assert_expected(outcome.evaluations[folder, batch], EXPECTED[folder])


@pytest.mark.parametrize("batch", BATCH_SIZES)
@pytest.mark.parametrize("folder", FOLDERS)
def test_harms_no_innocent_after_it(outcome, folder, batch):
    innocent = outcome.innocents[folder, batch]
    assert_unharmed(innocent)
    assert SLEEP_MS <= innocent.performance.latency_ms < 200 * SLEEP_MS


def test_leaves_no_process_behind(outcome):
    assert outcome.left_behind == []


@pytest.fixture(scope="module")
def outcome_on_cuda(tmp_path_factory) -> Outcome:
    return evaluate_all(tmp_path_factory.mktemp("wrong") / "registry", ON_CUDA, "cuda:0")


@pytest.mark.gpu
@pytest.mark.parametrize("batch", BATCH_SIZES)
@pytest.mark.parametrize("folder", ON_CUDA)
def test_gets_its_status_on_a_gpu(outcome_on_cuda, folder, batch):
    assert_expected(outcome_on_cuda.evaluations[folder, batch], EXPECTED[folder].on("cuda"))
    assert_unharmed(outcome_on_cuda.innocents[folder, batch])


def test_the_page_on_cheats_explains_every_guard():
    page = (REPOSITORY / "docs" / "cheats.md").read_text()
    section = page.partition("## The guards")[2].partition("\n## ")[0]
    guards = set(re.findall(r"^\| ([a-z ]+) \| ", section, re.MULTILINE)) - {"found by"}
    assert {expected.found_by for expected in EXPECTED.values()} == guards


def test_every_folder_says_what_it_must_get():
    assert {path.name for path in FOLDER.iterdir() if path.is_dir()} == set(EXPECTED)
