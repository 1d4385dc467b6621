"""The same of the wrong kernels in C++, CUDA, Triton and TileLang, beside the others to save time."""

from __future__ import annotations

import pytest
from wrong_kernel_runs import (
    BATCH_SIZES,
    EXPECTED,
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

FOLDERS = [name for name in folders_for("cpu") if SPECS[name]["language"] != "python"]


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
