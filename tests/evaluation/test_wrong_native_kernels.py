"""Every wrong kernel in C++, CUDA, Triton and TileLang gets the status that its table names. Apart, to save time."""

from __future__ import annotations

import pytest

from support.wrong_kernels import (
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

NAMES = [name for name in kernels_for("cpu") if KERNELS[name].language != "python"]


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
