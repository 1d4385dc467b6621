"""A student's answers, as they are written."""

from __future__ import annotations

import pytest

from fib_rmsnorm.exercises.answers import Question, grade_answers

BOUND = Question("Bound by", "memory", "fib-rmsnorm analyze", wrong=("compute",))
TIME = Question("Time, us", 15.4, "fib-rmsnorm report")


@pytest.mark.parametrize(
    ("question", "answer", "fault"),
    [
        (BOUND, "memory", None),
        (BOUND, "Memory-bound.", None),
        (BOUND, "compute", "'compute' is not right; see: fib-rmsnorm analyze"),
        (BOUND, "compute or memory", "'compute or memory' names more than one; answer with one word"),
        (BOUND, "memoryless", "'memoryless' is not right; see: fib-rmsnorm analyze"),
        (TIME, "15.0 us", None),
        (TIME, "12", "'12' is not within 10% of what is right; see: fib-rmsnorm report"),
        (TIME, "long", "'long' has no number"),
        (TIME, "?", "no answer yet"),
    ],
)
def test_an_answer_is_a_number_or_one_word(tmp_path, question, answer, fault):
    file = tmp_path / "answers.md"
    file.write_text(f"# Answers\n\n**{question.label}:** {answer}\n")
    task = grade_answers(file, "Answers", [question], 5)
    assert task.earned == (0 if fault else 5)
    assert task.remarks == ((f"answers.md, {question.label}: {fault}",) if fault else ())
