"""Answers in a student's Markdown: numbers and words after bold labels."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fib_rmsnorm.exercises.exercise import Task
from fib_rmsnorm.registry.store import read_text

_ANSWER = re.compile(r"^\*\*(?P<label>[^*]+):\*\*(?P<text>.*)$", re.MULTILINE)
_WORD = re.compile(r"[a-z0-9]+")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_TOLERANCE = 0.1


@dataclass(frozen=True)
class Question:
    """A question, and what is right."""

    label: str
    """What stands in bold before the answer."""
    right: float | str | None
    """A number, right within 10%; a word that the answer contains; None if nothing says what is right."""
    how: str
    """Where the right answer comes from."""
    wrong: tuple[str, ...] = ()
    """The other words to choose from, none of which a right answer contains."""


def grade_answers(file: Path, title: str, questions: Sequence[Question], points: int) -> Task:
    """Grade the answers in a file, each for an equal share of the points. Raises InputError if it cannot be read."""
    answers = {found["label"].strip(): found["text"].strip() for found in _ANSWER.finditer(read_text(file))}
    share, earned, remarks = points // len(questions), 0, []
    for question in questions:
        fault = _find_fault(question, answers.get(question.label))
        earned += 0 if fault else share
        if fault:
            remarks.append(f"{file.name}, {question.label}: {fault}")
    return Task(title, points, earned, tuple(remarks))


def _find_fault(question: Question, answer: str | None) -> str:
    if answer is None:
        return "this line is missing"
    if answer in ("", "?"):
        return "no answer yet"
    if question.right is None:
        return f"cannot be graded: {question.how}"
    if isinstance(question.right, str):
        return _find_fault_of_words(question, answer)
    number = _NUMBER.search(answer.replace(",", ""))
    if number is None:
        return f"{answer!r} has no number"
    is_near = abs(float(number[0]) - question.right) <= _TOLERANCE * abs(question.right)
    return "" if is_near else f"{answer!r} is not within 10% of what is right; see: {question.how}"


def _find_fault_of_words(question: Question, answer: str) -> str:
    words = set(_WORD.findall(answer.lower()))
    if question.right not in words:
        return f"{answer!r} is not right; see: {question.how}"
    return "" if words.isdisjoint(question.wrong) else f"{answer!r} names more than one; answer with one word"
