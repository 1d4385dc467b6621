"""The judge: a process that alone knows the right answers, and compares what solutions hand over."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from fib_rmsnorm.evaluation.channel import Channel, serve
from fib_rmsnorm.evaluation.comparison import compare
from fib_rmsnorm.evaluation.handover import HandoverError, read_outputs
from fib_rmsnorm.evaluation.inputs import make_case
from fib_rmsnorm.evaluation.pool import InputPool
from fib_rmsnorm.evaluation.results import normalize_outputs
from fib_rmsnorm.evaluation.ulp import measure_ulp
from fib_rmsnorm.operators import find_operator
from fib_rmsnorm.schema import Definition, Settings, Workload


@dataclass
class _Expected:
    name: str
    row_kinds: tuple[str, ...]
    outputs: list[torch.Tensor]
    reference: list[torch.Tensor] | None = None
    """What the Definition's reference gives, where `outputs` are exacter."""


class Judge:
    """Computes each case's expected outputs once and keeps those of the current Workload."""

    def __init__(self) -> None:
        self._current: tuple[str, str] | None = None
        self._cases: dict[int, _Expected] = {}
        self._pool: InputPool | None = None

    def compare(self, message: dict[str, Any]) -> dict[str, Any]:
        """Compare the outputs handed over with the expected ones: one record for each output.

        They belong to a `case`, or to the timed call whose inputs were the window `shift` of the pools. Without
        outputs there is no record but why.
        """
        expected = self._expect(message)
        settings = Settings.model_validate(message["settings"])
        try:
            with Path(message["handover"]).open("rb") as file:
                handed_over = read_outputs(file.fileno(), expected.outputs)
        except HandoverError as error:
            return {"case": expected.name, "missing": str(error)}
        found = []
        for index, (actual, right) in enumerate(zip(handed_over, expected.outputs, strict=True)):
            record = compare(actual.to(right.device), right, settings.rtol, settings.atol, expected.row_kinds).to_dict()
            record["ulp"] = _describe_ulp(actual.to(right.device), right)
            if expected.reference:
                record["reference_ulp"] = _describe_ulp(expected.reference[index], right)
            found.append(record)
        return {"case": expected.name, "outputs": found}

    def _expect(self, message: dict[str, Any]) -> _Expected:
        definition = Definition.model_validate(message["definition"])
        workload = Workload.model_validate(message["workload"])
        dataset = Path(message["dataset"]) if message.get("dataset") else None
        device: str = message["device"]
        if self._current != (definition.name, workload.uuid):
            self._current = (definition.name, workload.uuid)
            self._cases.clear()
            self._pool = None
        if "shift" in message:
            self._pool = self._pool or InputPool(definition, workload, device, dataset)
            outputs, _ = _compute(definition, self._pool.inputs(message["shift"]))
            return _Expected("timed call", (), outputs)
        case: int = message["case"]
        if case not in self._cases:
            name, inputs, row_kinds = make_case(definition, workload, case, device, dataset)
            outputs, is_exact = _compute(definition, inputs)
            reference = _run_reference(definition, inputs) if is_exact and case == 0 else None
            self._cases[case] = _Expected(name, row_kinds, outputs, reference)
        return self._cases[case]


def _compute(definition: Definition, inputs: dict[str, Any]) -> tuple[list[torch.Tensor], bool]:
    """The right outputs, and whether they are exact (the operator is known) or the reference's."""
    operator = find_operator(definition)
    if operator:
        return list(operator.compute_exact(inputs)), True
    return _run_reference(definition, inputs), False


def _run_reference(definition: Definition, inputs: dict[str, Any]) -> list[torch.Tensor]:
    namespace: dict[str, Any] = {}
    exec(compile(definition.reference, "reference", "exec"), namespace)
    return normalize_outputs(namespace["run"](*inputs.values()), list(definition.outputs))


def _describe_ulp(actual: torch.Tensor, expected: torch.Tensor) -> dict[str, Any] | None:
    statistics = measure_ulp(actual, expected)
    return statistics.to_dict() if statistics else None


def main(channel: Channel) -> None:
    """Serve until the channel closes."""
    judge = Judge()
    serve(channel, {"compare": judge.compare})
