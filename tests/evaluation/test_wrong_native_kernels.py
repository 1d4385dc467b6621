"""Wrong kernels in C++, CUDA, Triton and TileLang get the status that their table names.

Compilers take most of the time, so `make thorough` evaluates them, at one batch, and `make nightly` at another.
"""

from __future__ import annotations

import pytest

from support.wrong_kernels import (
    KERNELS,
    Outcome,
    assert_judged,
    evaluate_all,
    kernels_for,
)

# All of a module's kernels are evaluated when its first test begins.
pytestmark = pytest.mark.timeout(900)

NAMES = [name for name in kernels_for("cpu") if KERNELS[name].language != "python"]


BATCH = {"of many rows": 32, "of a row": 1}
RUNS = [
    pytest.param("of many rows", marks=pytest.mark.compile),
    pytest.param("of a row", marks=pytest.mark.fuzz),
]


@pytest.fixture(scope="module", params=RUNS)
def run(request, tmp_path_factory) -> tuple[Outcome, int]:
    """Of all kernels at one batch, which is given too."""
    batch = BATCH[request.param]
    return evaluate_all(tmp_path_factory.mktemp("wrong") / "registry", NAMES, "cpu", (batch,)), batch


@pytest.mark.parametrize("kernel", NAMES)
def test_gets_its_status_and_harms_no_solution_after_it(run, kernel):
    outcome, batch = run
    assert_judged(outcome, kernel, batch)


def test_nothing_is_left_behind(run):
    outcome, _ = run
    assert outcome.left_behind == []
