"""Wrong kernels in C++, CUDA, Triton and TileLang get the status that their table names.

Compilers take most of the time, so only `make slow` evaluates them.
"""

from __future__ import annotations

import pytest

from support.wrong_kernels import (
    BATCH_SIZES,
    KERNELS,
    Outcome,
    assert_judged,
    evaluate_all,
    kernels_for,
)

# All of a module's kernels are evaluated when its first test begins.
pytestmark = pytest.mark.timeout(900)

NAMES = [name for name in kernels_for("cpu") if KERNELS[name].language != "python"]


@pytest.fixture(scope="module")
def outcome(tmp_path_factory) -> Outcome:
    return evaluate_all(tmp_path_factory.mktemp("wrong") / "registry", NAMES, "cpu", BATCH_SIZES)


@pytest.mark.slow
@pytest.mark.parametrize("batch", BATCH_SIZES)
@pytest.mark.parametrize("kernel", NAMES)
def test_gets_its_status_and_harms_no_solution_after_it(outcome, kernel, batch):
    assert_judged(outcome, kernel, batch)


@pytest.mark.slow
def test_nothing_is_left_behind(outcome):
    assert outcome.left_behind == []
