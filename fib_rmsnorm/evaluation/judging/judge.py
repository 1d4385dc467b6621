"""The judge: a process that alone knows the right answers, and compares what solutions hand over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from fib_rmsnorm.evaluation.judging.output_comparison import compare
from fib_rmsnorm.evaluation.judging.ulp import measure_ulp
from fib_rmsnorm.evaluation.tensors.bits import as_bytes
from fib_rmsnorm.evaluation.tensors.fresh_inputs import FreshInputs
from fib_rmsnorm.evaluation.tensors.inputs import Case, make_case
from fib_rmsnorm.evaluation.tensors.output_buffers import POISON
from fib_rmsnorm.evaluation.tensors.returned_outputs import normalize_outputs
from fib_rmsnorm.operators import find_operator
from fib_rmsnorm.sandbox.channel import Channel, serve
from fib_rmsnorm.sandbox.output_transfer import OutputTransferError, read_outputs
from fib_rmsnorm.schema import Definition, Settings, Workload

_MOST_EXPLAINED_BYTES = 64 << 20
_SAMPLED_ELEMENTS = 256


@dataclass
class _Expected:
    case: Case
    outputs: list[torch.Tensor]
    reference: list[torch.Tensor] | None = None
    """What the Definition's reference gives, where `outputs` are exacter."""


class Judge:
    """Computes each case's expected outputs once and keeps those of the current Workload."""

    def __init__(self) -> None:
        self._current: tuple[str, str] | None = None
        self._cases: dict[int, _Expected] = {}
        self._fresh_inputs: FreshInputs | None = None

    def compare(self, message: dict[str, Any]) -> dict[str, Any]:
        """Compare the outputs handed over with the expected ones: one record for each output.

        They belong to a `case`, or to the timed call whose inputs are those of a `number`. Without outputs there
        is no record but why. Wrong ones have a `hint`, if it is to `explain` and they tell how they came about.
        """
        expected = self._expect(message)
        settings = Settings.model_validate(message["settings"])
        try:
            with Path(message["handover"]).open("rb") as file:
                handed_over = read_outputs(file.fileno(), expected.outputs)
        except OutputTransferError as error:
            return {"case": expected.case.name, "missing": str(error)}
        found = []
        actuals = [actual.to(right.device) for actual, right in zip(handed_over, expected.outputs, strict=True)]
        for index, (actual, right) in enumerate(zip(actuals, expected.outputs, strict=True)):
            record = compare(actual, right, settings.rtol, settings.atol, expected.case.row_kinds).to_dict()
            # Hundreds of timed calls are right, and nobody asks how much.
            record["ulp"] = _describe_ulp(actual, right) if "case" in message or record["mismatched"] else None
            if expected.reference:
                record["reference_ulp"] = _describe_ulp(expected.reference[index], right)
            found.append(record)
        hint = None
        if message["explain"] and any(record["mismatched"] for record in found):

            def is_right(outputs: list[torch.Tensor]) -> bool:
                pairs = list(zip(actuals, outputs, strict=True))
                samples = [(_sample(actual), _sample(right)) for actual, right in pairs]  # mostly tells already
                return not any(compare(a, r, settings.rtol, settings.atol).mismatched for a, r in samples + pairs)

            hint = describe_unwritten(actuals, expected.outputs) or self._explain(message, expected, is_right)
        return {"case": expected.case.name, "outputs": found, "hint": hint}

    def _expect(self, message: dict[str, Any]) -> _Expected:
        definition = Definition.model_validate(message["definition"])
        workload = Workload.model_validate(message["workload"])
        dataset = Path(message["dataset"]) if message.get("dataset") else None
        device: str = message["device"]
        if self._current != (definition.name, workload.uuid):
            self._current = (definition.name, workload.uuid)
            self._cases.clear()
            self._fresh_inputs = None
        if "number" in message:
            self._fresh_inputs = self._fresh_inputs or FreshInputs(definition, workload, device, dataset)
            inputs = self._fresh_inputs.set(message["number"])
            return _Expected(Case("timed call", workload, inputs), _compute(definition, inputs)[0])
        index: int = message["case"]
        if index not in self._cases:
            case = make_case(definition, workload, index, device, dataset)
            outputs, is_exact = _compute(definition, case.inputs)
            reference = _run_reference(definition, case.inputs) if is_exact and index == 0 else None
            self._cases[index] = _Expected(case, outputs, reference)
        return self._cases[index]

    def _explain(
        self, message: dict[str, Any], expected: _Expected, is_right: Callable[[list[torch.Tensor]], bool]
    ) -> str | None:
        """Whether wrong outputs would have been right with one input of an earlier call, or with all of them."""
        definition = Definition.model_validate(message["definition"])
        if sum(output.nbytes for output in expected.outputs) > _MOST_EXPLAINED_BYTES:
            return None
        earlier = [
            each
            for index, each in self._cases.items()
            if index < message.get("case", len(self._cases)) and each.case.workload == expected.case.workload
        ]
        for each in {id(each): each for each in (*earlier[:1], *earlier[-1:])}.values():
            for name, value in each.case.inputs.items():
                if is_right(_compute(definition, {**expected.case.inputs, name: value})[0]):
                    return f"this would be right with the {name!r} of an earlier call: {each.case.name}"
        for each in earlier:
            if is_right(each.outputs):
                return f"this is the answer to an earlier call: {each.case.name}"
        for number in message.get("earlier", []):
            if self._fresh_inputs and is_right(_compute(definition, self._fresh_inputs.set(number))[0]):
                return "this is the answer to an earlier call"
        return None


def _sample(tensor: torch.Tensor) -> torch.Tensor:
    flat = tensor.reshape(-1)
    return flat[:: max(1, flat.numel() // _SAMPLED_ELEMENTS)]


def describe_unwritten(actuals: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> str | None:
    """How many elements of the outputs are still what they were before the call."""
    count = 0
    for actual, right in zip(actuals, expected, strict=True):
        elements = [as_bytes(tensor).view(-1, tensor.element_size()) == POISON for tensor in (actual, right)]
        count += int((elements[0].all(dim=1) & ~elements[1].all(dim=1)).sum().item())
    return f"{count} elements were never written, or computed from what was there before" if count else None


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


def main(channel: Channel, _: int) -> None:
    """Serve until the channel closes."""
    judge = Judge()
    serve(channel, {"compare": judge.compare})
