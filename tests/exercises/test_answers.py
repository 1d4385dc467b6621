"""A student's answers, as they are written."""

from __future__ import annotations

import pytest

from fib_rmsnorm.exercises.exercise import Question
from fib_rmsnorm.exercises.grading import find_fault

BOUND = Question("Bound by", "memory", "fib-rmsnorm analyze", wrong=("compute",))
TIME = Question("Time, us", 15.4, "fib-rmsnorm report {traces}")


@pytest.mark.parametrize(
    ("question", "answer", "fault"),
    [
        (BOUND, "memory", ""),
        (BOUND, "Memory-bound.", ""),
        (BOUND, "compute", "'compute' is not right; see: fib-rmsnorm analyze"),
        (BOUND, "compute or memory", "'compute or memory' names more than one; answer with one word"),
        (BOUND, "memoryless", "'memoryless' is not right; see: fib-rmsnorm analyze"),
        (TIME, "15.0 us", ""),
        (TIME, "12", "'12' is not within 10% of what is right; see: fib-rmsnorm report traces.json"),
        (TIME, "long", "'long' has no number"),
        (TIME, "?", "no answer yet"),
        (TIME, None, "this line is missing"),
    ],
)
def test_an_answer_is_a_number_or_one_word(question, answer, fault):
    assert find_fault(question, answer, question.right, "traces.json") == fault
