"""Grade an exercise: its kernels by the judge, its Solutions and Traces, its answers."""

import re
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from fib_rmsnorm.analysis.comparing.outputs import find_output_differences
from fib_rmsnorm.analysis.loading import decode_traces
from fib_rmsnorm.analysis.trace_record import TraceRecord
from fib_rmsnorm.errors import InputError
from fib_rmsnorm.evaluation import ROLES
from fib_rmsnorm.evaluation.run_config import RunConfig
from fib_rmsnorm.exercises.course import TRACES, Exercise, KernelTask, find_definition
from fib_rmsnorm.languages import title_of
from fib_rmsnorm.machine.devices import choose_devices
from fib_rmsnorm.registry import Registry
from fib_rmsnorm.registry.files.regular_files import read_text
from fib_rmsnorm.registry.selection import operator_of
from fib_rmsnorm.registry.sources.callees import KernelCall
from fib_rmsnorm.registry.sources.draft import draft_solution
from fib_rmsnorm.registry.sources.kernel_file import KernelFile
from fib_rmsnorm.registry.sources.packing import read_current
from fib_rmsnorm.sandbox.fork_server import ForkServer
from fib_rmsnorm.schema import Definition, Settings, Solution, SupportedLanguages, digest
from fib_rmsnorm.sessions.device_turns import DeviceTurns
from fib_rmsnorm.sessions.evaluator import Evaluator
from fib_rmsnorm.sessions.try_plan import plan_try
from fib_rmsnorm.sessions.version import Version

_ANSWER = re.compile(r"^\*\*(?P<label>[^*]+):\*\*(?P<text>.*)$", re.MULTILINE)
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_TOLERANCE = 0.1
_ALL_POINTS = 100


@dataclass(frozen=True)
class Task:
    """A graded part of an exercise."""

    title: str
    points: int
    earned: int
    remarks: tuple[str, ...] = ()
    """The fault and its remedy; or the evidence for a grade of all points."""


def grade(exercise: Exercise, folder: Path) -> list[Task]:
    """Grade a folder of the exercise. Raises InputError if a file is missing or damaged."""
    registry, kind = Registry(folder), choose_devices()[0].kind
    kernels = [each for each in exercise.kernels if each.device in (None, kind)]
    tasks = _grade_kernels(registry, kernels) if kernels else []
    if exercise.evaluation_points:
        tasks += _grade_evaluations(registry, exercise, kernels, exercise.batch_sizes[kind])
    points = _ALL_POINTS - sum(task.points for task in tasks)
    return [*tasks, _grade_answers(exercise, folder / exercise.sheet, points)]


def _grade_kernels(registry: Registry, kernels: Sequence[KernelTask]) -> list[Task]:
    """Judge each file as `try --check` does. Raises InputError if the judge cannot judge."""
    tasks = []
    with ForkServer(ROLES, {"OMP_WAIT_POLICY": "passive"}) as fork_server:
        for kernel in kernels:
            fault = _find_fault(fork_server, registry, kernel)
            tasks.append(Task(kernel.title, kernel.points, 0 if fault else kernel.points, (fault,) if fault else ()))
    return tasks


def _draft(registry: Registry, kernel: KernelTask, definition: Definition) -> Solution:
    """The Solution that the file makes. Raises InputError if it makes none."""
    draft = draft_solution(registry, KernelFile(registry.root / kernel.file, call="run"), definition)
    if draft.description:
        raise InputError(f"{kernel.file}: run does not take the Definition's inputs in order")
    if draft.spec.language is not SupportedLanguages(kernel.language):
        raise InputError(f"{kernel.file} is not in {title_of(kernel.language)}, but in {draft.spec.language.value}")
    entry = "call_module" if kernel.caller else "run"
    spec = draft.spec.model_copy(update={"entry_point": f"{kernel.file}::{entry}"})
    (source,) = draft.sources
    called = source.model_copy(update={"content": source.content + kernel.caller})
    return draft.model_copy(update={"spec": spec, "sources": [called]})


def _find_fault(fork_server: ForkServer, registry: Registry, kernel: KernelTask) -> str:
    """The first failure; empty if there is none. Raises InputError unless all Workloads were judged."""
    definition, device = find_definition(kernel.definition), choose_devices()[0]
    try:
        draft = _draft(registry, kernel, definition)
    except InputError as error:
        return str(error)
    trial = plan_try(registry, definition, {KernelCall(""): draft}, (), device)
    config = RunConfig(Settings(), 60.0, registry.root)
    with closing(Evaluator(fork_server, device, config, DeviceTurns())) as evaluator:
        version = Version(1, draft.name, definition.name, device.hardware)
        *_, version = evaluator.evaluate(version, trial, timed=False)
    for check in version.failures:
        first = next(iter(check.log.strip().splitlines()), "")
        return f"{check.status.value} at batch={check.workload.axes['batch']}: {first}"
    if not version.passed:
        judged = f"on {len(version.checks)} of {len(trial.workloads)} Workloads"
        raise InputError(f"{draft.name} was judged {judged}: {version.skipped}")
    return ""


def _grade_evaluations(
    registry: Registry, exercise: Exercise, kernels: Sequence[KernelTask], batch_sizes: tuple[int, ...]
) -> list[Task]:
    """Whether each kernel is a Solution, and at how many batch sizes the bench evaluated it as it is: two tasks."""
    solutions = list(read_current(registry).by_name.values())
    file, share = registry.root / TRACES, exercise.evaluation_points
    records = decode_traces([file], registry.root).records if file.exists() else []
    made, earned, remarks, faults = 0, 0, [], []
    bench = f"fib-rmsnorm bench --output {TRACES}"
    if exercise.against:
        bench = f"fib-rmsnorm bench --output {TRACES} --against '{exercise.against}'"
    for kernel in kernels:
        solution, remark = _find_own(solutions, registry.root, kernel)
        remarks.append(remark)
        made += share * (solution is not None)
        sha256 = digest(solution) if solution else ""
        evaluated = [each for each in records if each.passed and each.solution_sha256 == sha256]
        lacking = {*batch_sizes} - {each.axes.get("batch", 0) for each in _compared(evaluated, exercise.against)}
        earned += share * (len(batch_sizes) - len(lacking)) // len(batch_sizes)
        if lacking:
            where = f" at batch {', '.join(map(str, sorted(lacking)))}"
            run = f"{bench} --batch-sizes {','.join(map(str, batch_sizes))}"
            faults.append(f"{kernel.title}: {TRACES} has no passed Trace of it as it is{where}; run: {run}")
    points = share * len(kernels)
    return [
        Task("Solutions", points, made, tuple(remarks)),
        Task("Validation" if exercise.against else "Traces", points, earned, tuple(faults)),
    ]


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
    name = f"{operator_of(kernel.definition)}_{kernel.language}_mine_v1"
    register = f"fib-rmsnorm register {kernel.file} --name {name} --author me"
    return None, f"no Solution is made of {kernel.file}; run: {register}"


def _compared(records: Sequence[TraceRecord], against: str) -> list[TraceRecord]:
    """The Traces whose outputs were compared with a Solution's; all if no comparison is asked for."""
    if not against:
        return list(records)
    try:
        return [each.record for each in find_output_differences(records, against, {})]
    except InputError:
        return []


def _grade_answers(exercise: Exercise, sheet: Path, points: int) -> Task:
    """Compare the answer sheet with the worked answers of the exercise's page."""
    right, given = _read_answers(exercise.page), _read_answers(sheet)
    faults = {label: _find_mistake(given.get(label), answer) for label, answer in right.items()}
    remarks = tuple(f"{exercise.sheet}, {label}: {fault}" for label, fault in faults.items() if fault)
    return Task("Answers", points, points * (len(right) - len(remarks)) // len(right), remarks)


def _read_answers(file: Path) -> dict[str, str]:
    return {found["label"].strip(): found["text"].strip() for found in _ANSWER.finditer(read_text(file))}


def _find_mistake(answer: str | None, right: str) -> str:
    """The fault of an answer, in a line; empty if it is the right word, or within 10% of the right number."""
    if answer is None:
        return "this line is missing"
    if answer in ("", "?"):
        return "no answer yet"
    if not _NUMBER.fullmatch(right):
        words = re.findall(r"\w+", answer.lower())
        return "" if words == [right] else f"{answer!r} is not right; answer with one word"
    number = _NUMBER.search(answer.replace(",", ""))
    if number is None:
        return f"{answer!r} has no number"
    is_near = abs(float(number[0]) - float(right)) <= _TOLERANCE * float(right)
    return "" if is_near else f"{answer!r} is not within 10% of what is right; the page says how to find it"
