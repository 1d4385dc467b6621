"""Grade an exercise: its Definition, its kernels by the judge, its Solutions and Traces, its answers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from fib_rmsnorm.analysis.comparing.outputs import find_output_differences
from fib_rmsnorm.analysis.loading import load_traces
from fib_rmsnorm.analysis.trace_record import TraceRecord
from fib_rmsnorm.errors import InputError
from fib_rmsnorm.exercises.exercise import (
    STAND_IN,
    STARTERS,
    TRACES,
    Exercise,
    Figures,
    KernelTask,
    Question,
    Task,
    find_definition,
)
from fib_rmsnorm.exercises.kernel_grade import grade_kernels
from fib_rmsnorm.machine.devices import choose_devices
from fib_rmsnorm.registry import Registry, generate_workloads
from fib_rmsnorm.registry.sources.packing import read_current
from fib_rmsnorm.registry.store import read_text
from fib_rmsnorm.schema import Definition, Solution, digest

_ANSWER = re.compile(r"^\*\*(?P<label>[^*]+):\*\*(?P<text>.*)$", re.MULTILINE)
_WORD = re.compile(r"[a-z0-9]+")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_TOLERANCE = 0.1


def grade(exercise: Exercise, folder: Path) -> list[Task]:
    """Grade a folder of the exercise. Raises InputError if a file is missing or damaged."""
    registry, kind = Registry(folder), choose_devices()[0].kind
    kernels = [each for each in exercise.kernels if each.device in (None, kind)]
    tasks = [_grade_definition(registry, exercise)] if exercise.own_definition else []
    tasks += grade_kernels(registry, kernels)
    if exercise.evaluation_points:
        solutions = list(read_current(registry).by_name.values())
        found = [_find_own(solutions, folder, each) for each in kernels]
        tasks += _grade_evaluations(registry, exercise, kernels, found, exercise.batch_sizes[kind])
    return [*tasks, *_grade_answers(exercise, folder)]


def _grade_definition(registry: Registry, exercise: Exercise) -> Task:
    """Whether it says what a kernel gets and gives. Its reference counts when the bench judges by it."""
    title, points, name = "Definition", 10, exercise.own_definition
    if name not in registry.definitions():
        return Task(title, points, 0, (f"there is no {name}; run: fib-rmsnorm define",))
    own, right = registry.definition(name), find_definition(name)
    differing = [part for part in ("axes", "inputs", "outputs") if _essence(own, part) != _essence(right, part)]
    if differing:
        return Task(title, points, 0, (f"{name} has other {' and '.join(differing)} than: fib-rmsnorm define",))
    batch_sizes = exercise.batch_sizes["cuda"]
    wanted = {each.uuid for each in generate_workloads(right, list(batch_sizes))}
    lacking = len(wanted - {each.uuid for each in registry.workloads(name)})
    workload = f"fib-rmsnorm workload --batch-sizes {','.join(map(str, batch_sizes))}"
    remarks = (f"{lacking} of its Workloads are missing; run: {workload}",) if lacking else ()
    return Task(title, points, points // 2 if lacking else points, remarks)


def _essence(definition: Definition, part: str) -> dict[str, object]:
    """A part of a Definition without what its author says about it."""
    return {name: each.model_dump(exclude={"description"}) for name, each in getattr(definition, part).items()}


def _find_own(solutions: Sequence[Solution], folder: Path, kernel: KernelTask) -> tuple[Solution | None, str]:
    """The Solution that was made of a file, and who made it; None and what to do if there is none."""
    own = [
        (each, source.content)
        for each in solutions
        for source in each.sources
        if each.definition == kernel.definition and source.path == kernel.file
    ]
    text = read_text(folder / kernel.file)
    for solution, content in own:
        if content == text:
            return solution, f"{solution.name} by {solution.author}"
    if own:
        return None, f"{own[0][0].name} holds another version of {kernel.file}: copy it to its folder in solutions/"
    return None, f"no Solution is made of {kernel.file}; run: {kernel.register}"


def _grade_evaluations(
    registry: Registry,
    exercise: Exercise,
    kernels: Sequence[KernelTask],
    found: Sequence[tuple[Solution | None, str]],
    batch_sizes: tuple[int, ...],
) -> list[Task]:
    """Whether each kernel is a Solution, and at how many batch sizes the bench evaluated it as it is: two tasks."""
    file, share = registry.root / TRACES, exercise.evaluation_points
    records = load_traces([file], registry.root, warn=lambda _: None).records if file.exists() else []
    earned, faults = 0, []
    for kernel, (solution, _) in zip(kernels, found, strict=True):
        evaluated = [each for each in records if solution and _is_of(each, solution)]
        lacking = {*batch_sizes} - {each.axes.get("batch", 0) for each in _compared(evaluated, exercise.against)}
        earned += share * (len(batch_sizes) - len(lacking)) // len(batch_sizes)
        if lacking:
            where = ", beside torch," if exercise.against else ""
            where += f" at batch {', '.join(map(str, sorted(lacking)))}"
            bench = f"{exercise.bench} --batch-sizes {','.join(map(str, batch_sizes))}"
            faults.append(f"{kernel.title}: {TRACES} has no passed Trace of it as it is{where}; run: {bench}")
    made = share * sum(solution is not None for solution, _ in found)
    points = share * len(kernels)
    return [
        Task("Solutions", points, made, tuple(remark for _, remark in found)),
        Task("Validation" if exercise.against else "Traces", points, earned, tuple(faults)),
    ]


def _is_of(record: TraceRecord, solution: Solution) -> bool:
    return record.passed and record.solution == solution.name and record.solution_sha256 == digest(solution)


def _compared(records: Sequence[TraceRecord], against: str) -> list[TraceRecord]:
    """Those whose outputs were compared with a Solution's; all if none is asked for."""
    if not against:
        return list(records)
    try:
        return [each.record for each in find_output_differences(records, against)]
    except InputError:
        return []


def _grade_answers(exercise: Exercise, folder: Path) -> list[Task]:
    """Grade the answer sheet by the Traces of the starter's H200."""
    figures = Figures(STARTERS / exercise.starter / STAND_IN)
    answers = {
        found["label"].strip(): found["text"].strip() for found in _ANSWER.finditer(read_text(folder / exercise.sheet))
    }
    tasks = []
    for title, questions in exercise.questions.items():
        faults = {
            each.label: find_fault(
                each, answers.get(each.label), each.right(figures) if callable(each.right) else each.right
            )
            for each in questions
        }
        remarks = tuple(f"{exercise.sheet}, {label}: {fault}" for label, fault in faults.items() if fault)
        points = exercise.answer_points
        tasks.append(Task(title, points * len(questions), points * (len(questions) - len(remarks)), remarks))
    return tasks


def find_fault(question: Question, answer: str | None, right: float | str) -> str:
    """What is wrong with an answer, in a line; empty if it is right."""
    if answer is None:
        return "this line is missing"
    if answer in ("", "?"):
        return "no answer yet"
    if isinstance(right, str):
        words = set(_WORD.findall(answer.lower()))
        if right not in words:
            return f"{answer!r} is not right; see: {question.how}"
        is_one = words.isdisjoint(question.wrong)
        return "" if is_one else f"{answer!r} names more than one; answer with one word"
    number = _NUMBER.search(answer.replace(",", ""))
    if number is None:
        return f"{answer!r} has no number"
    is_near = abs(float(number[0]) - right) <= _TOLERANCE * abs(right)
    return "" if is_near else f"{answer!r} is not within 10% of what is right; see: {question.how}"
