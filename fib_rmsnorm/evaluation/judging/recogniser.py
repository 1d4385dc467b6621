"""Recognise the operator that a Definition's reference computes, by its outputs on probe inputs.

The probe is what a Solution goes through: a worker calls the reference on a small Workload, the operator's hard inputs
and an awkward size, and the judge compares its outputs with the exact answer.
"""

import os
import threading
from collections.abc import Iterable, Iterator

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.evaluation.judging.comparer import Comparer, ReferenceFailedError, Subject, Transferred
from fib_rmsnorm.evaluation.tensors.case_numbers import count_cases
from fib_rmsnorm.evaluation.worker.worker_messages import Call, Called
from fib_rmsnorm.evaluation.worker_client import EvaluationFailedError
from fib_rmsnorm.evaluation.worker_pool import WorkerPool
from fib_rmsnorm.operators import Recognition, list_candidates, recognise_source
from fib_rmsnorm.registry import tensor_bytes
from fib_rmsnorm.schema import (
    Definition,
    EvaluationStatus,
    RandomInput,
    SafetensorsInput,
    ScalarInput,
    Settings,
    Workload,
)


class Recogniser:
    """Recognises each Definition once for a device. Threads may share it."""

    def __init__(self, comparer: Comparer) -> None:
        self._comparer = comparer
        self._found: dict[str, Recognition | ReferenceFailedError | None] = {}
        self._withdrawn: set[tuple[str, str]] = set()
        self._lock = threading.Lock()

    def recognise(self, definition: Definition, workload: Workload) -> Recognition | None:
        """The operator by which to judge a Workload's outputs; None if its reference computes no known one.

        Raises ReferenceFailedError if the reference does not answer.
        """
        if (definition.name, workload.uuid) in self._withdrawn:
            return None
        with self._lock:
            if definition.name not in self._found:
                self._found[definition.name] = recognise_source(definition) or self._probe(definition)
            found = self._found[definition.name]
        if isinstance(found, ReferenceFailedError):
            raise found
        return found

    def withdraw(self, definition: Definition, workload: Workload) -> None:
        """Recognise nothing for a Workload, on whose inputs the reference has contradicted the operator."""
        self._withdrawn.add((definition.name, workload.uuid))

    def _probe(self, definition: Definition) -> Recognition | ReferenceFailedError | None:
        try:
            for candidates in list_candidates(definition):
                if found := self._choose(definition, candidates):
                    return found
        except EvaluationFailedError as failure:
            if failure.status is EvaluationStatus.TIMEOUT:  # to try it again on the Workload would take as long again
                return ReferenceFailedError(f"the reference of {definition.name} failed: {failure}")
        return None

    def _choose(self, definition: Definition, candidates: list[Recognition]) -> Recognition | None:
        """The first of the candidates, which differ in their constants alone, with which all outputs are right."""
        worker = self._comparer.workers.find_reference(definition)
        axes, scalars = candidates[0].choose_probe(definition)
        inputs: dict[str, RandomInput | SafetensorsInput | ScalarInput] = {
            name: ScalarInput(value=scalars[name]) if name in scalars else RandomInput() for name in definition.inputs
        }
        workload = Workload(axes=axes, inputs=inputs, uuid="probe")
        for case in range(count_cases(definition, candidates[0], workload)):
            called = worker.ask(Call(workload=workload, case=case, recognition=candidates[0]), Called)
            outputs = Transferred(worker, called.memory, are_of_reference=True)
            candidates = [
                candidate
                for candidate in candidates
                if self._is_right(Subject(definition, workload, candidate), outputs, case)
            ]
            worker.process.clear_outputs()
            if not candidates:
                return None
        return candidates[0]

    def _is_right(self, subject: Subject, outputs: Transferred, case: int) -> bool:
        """Whether the reference's outputs are right, by the number of elements that are rounded otherwise too.

        The tolerances are those of the dtypes, whatever the run's settings are.
        """
        which = {"case": case, "settings": Settings(), "suspects": {name: [] for name in subject.definition.outputs}}
        (verdict,) = self._comparer.compare(subject, outputs, **which)
        return verdict.missing is None and not any(output.is_wrong for output in verdict.outputs.values())


def call_reference(workers: WorkerPool, definition: Definition, workload: Workload) -> bytes:
    """The bytes of what a Definition's reference returns on a CPU. Raises InputError that says how it failed."""
    try:
        worker = workers.find_reference(definition)
        worker.ask(Call(workload=workload, case=0, recognition=None), Called)
        return os.pread(worker.process.outputs_file, sum(tensor_bytes(definition, workload).values()), 0)
    except EvaluationFailedError as failure:
        what = str(failure).partition("\n")[0]  # without the traceback
        raise InputError(f"the reference of {definition.name} failed: {what}") from None


def recognise_all(
    workers: WorkerPool, definitions: Iterable[Definition]
) -> Iterator[tuple[Definition, Recognition | str]]:
    """Each Definition with the operator that its reference computes, or why it has none.

    A reference that is an operator's own is known by its source; others are called on probe inputs.
    """
    recogniser = Recogniser(Comparer(workers))
    for definition in definitions:
        try:
            found = recogniser.recognise(definition, Workload(axes={}, inputs={}, uuid="probe"))
        except ReferenceFailedError as failure:
            yield definition, str(failure)
            continue
        yield definition, found or "its reference computes no known operator"
