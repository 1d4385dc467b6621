"""Wrong kernels in C++, CUDA, Triton and TileLang get the status that their table names.

Compilers take most of the time, so `make test` evaluates one kernel for each guard, and `make slow` all.
"""

from __future__ import annotations

import pytest

from support.wrong_kernels import (
    BATCH_SIZES,
    EXPECTED,
    KERNELS,
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
ONE_FOR_EACH_GUARD = sorted({KERNELS[name].guard: name for name in reversed(NAMES)}.values())


def evaluate(tmp_path_factory, names: list[str], batches: tuple[int, ...]) -> Outcome:
    return evaluate_all(tmp_path_factory.mktemp("wrong") / "registry", names, "cpu", batches)


@pytest.fixture(scope="module")
def few(tmp_path_factory) -> Outcome:
    return evaluate(tmp_path_factory, ONE_FOR_EACH_GUARD, BATCH_SIZES[-1:])


@pytest.fixture(scope="module")
def everything(tmp_path_factory) -> Outcome:
    return evaluate(tmp_path_factory, NAMES, BATCH_SIZES)


def check(outcome: Outcome, kernel: str, batch: int) -> None:
    """It gets its status, and does not harm the Solution after it."""
    assert_expected(outcome.evaluations[kernel, batch], EXPECTED[kernel])
    innocent = outcome.innocents[kernel, batch]
    assert_unharmed(innocent)
    assert SLEEP_MS <= innocent.performance.latency_ms < 200 * SLEEP_MS


@pytest.mark.parametrize("kernel", ONE_FOR_EACH_GUARD)
def test_one_for_each_guard(few, kernel):
    check(few, kernel, BATCH_SIZES[-1])


@pytest.mark.slow
@pytest.mark.parametrize("batch", BATCH_SIZES)
@pytest.mark.parametrize("kernel", NAMES)
def test_all(everything, kernel, batch):
    check(everything, kernel, batch)


def test_nothing_is_left_behind(few):
    assert few.left_behind == []


@pytest.mark.slow
def test_nothing_is_left_behind_by_all(everything):
    assert everything.left_behind == []
