"""The judge: a process that alone knows the right answers, and compares what solutions hand over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from fib_rmsnorm.evaluation.channel import Channel, serve
from fib_rmsnorm.evaluation.comparison import compare
from fib_rmsnorm.evaluation.handover import HandoverError, read_outputs
from fib_rmsnorm.evaluation.inputs import make_case
from fib_rmsnorm.evaluation.results import normalize_outputs
from fib_rmsnorm.operators import find_operator
from fib_rmsnorm.schema import Definition, Settings, Workload


class Judge:
    """Computes each case's expected outputs once and keeps those of the current Workload."""

    def __init__(self) -> None:
        self._current: tuple[str, str] | None = None
        self._expected: dict[int, tuple[str, tuple[str, ...], list[torch.Tensor]]] = {}

    def expect(self, message: dict[str, Any]) -> dict[str, Any]:
        """Compute the expected outputs of a case ahead of their use."""
        self._expect(message)
        return {}

    def compare(self, message: dict[str, Any]) -> dict[str, Any]:
        """Compare the outputs handed over with the expected ones: one record for each output.

        Without outputs there is no record but why.
        """
        name, row_kinds, expected = self._expect(message)
        settings = Settings.model_validate(message["settings"])
        try:
            with Path(message["handover"]).open("rb") as file:
                handed_over = read_outputs(file.fileno(), expected)
        except HandoverError as error:
            return {"case": name, "missing": str(error)}
        found = [
            compare(actual.to(e.device), e, settings.rtol, settings.atol, row_kinds).to_dict()
            for actual, e in zip(handed_over, expected, strict=True)
        ]
        return {"case": name, "outputs": found}

    def _expect(self, message: dict[str, Any]) -> tuple[str, tuple[str, ...], list[torch.Tensor]]:
        definition = Definition.model_validate(message["definition"])
        workload = Workload.model_validate(message["workload"])
        if self._current != (definition.name, workload.uuid):
            self._current = (definition.name, workload.uuid)
            self._expected.clear()
        case: int = message["case"]
        if case not in self._expected:
            dataset = Path(message["dataset"]) if message.get("dataset") else None
            name, inputs, row_kinds = make_case(definition, workload, case, message["device"], dataset)
            operator = find_operator(definition)
            if operator:
                outputs = list(operator.compute_exact(inputs))
            else:
                namespace: dict[str, Any] = {}
                exec(compile(definition.reference, "reference", "exec"), namespace)
                outputs = normalize_outputs(namespace["run"](*inputs.values()), list(definition.outputs))
            self._expected[case] = (name, row_kinds, outputs)
        return self._expected[case]


def main(channel: Channel) -> None:
    """Serve until the channel closes."""
    judge = Judge()
    serve(channel, {"expect": judge.expect, "compare": judge.compare})
