"""Calls of shipped forward norms, on tensors anywhere in memory."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import torch

from fib_rmsnorm.evaluation.judging.output_comparison import OutputPair, compare
from fib_rmsnorm.evaluation.tensors.inputs import DeviceWorkload, generate_inputs, torch_dtype
from fib_rmsnorm.operators import find_operator
from fib_rmsnorm.operators.operator import ExactOutput
from fib_rmsnorm.registry import generate_workloads
from fib_rmsnorm.schema import Definition
from support.kernel_calls import place
from support.mistakes import make_outputs

SUFFIXES = {torch.float16: "", torch.bfloat16: "_bf16", torch.float32: "_fp32"}
"""Of a Definition's name, by the dtype of x."""
WITH_FLOAT_WEIGHT = (
    "rmsnorm",
    "rmsnorm_bias",
    "rmsnorm_relu",
    "rmsnorm_silu_gate",
    "rmsnorm_fp8",
    "rmsnorm_fp8_per_row",
)
"""The operators whose compiled kernels take a weight in float32 beside an x of 16 bits."""


class NormCall:
    """The tensors of a call, each `offset` elements into its memory; with `hard`, the rows of this hard case."""

    def __init__(
        self, definition: Definition, batch: int, *, offset: int = 0, hard: int | None = None, device: str = "cuda"
    ) -> None:
        name = re.match(r"(.+)_d\d", definition.name)
        assert name
        self.operator: Any = find_operator(name[1])
        self._definition, self._offset = definition, offset
        (one_row,) = generate_workloads(definition, [1])
        workload = one_row.model_copy(update={"axes": {"batch": batch}})  # perhaps without rows
        made = generate_inputs(DeviceWorkload(definition, workload, device))
        if hard is not None:
            made |= self.operator.make_hard_case(made, {}, hard, "seed").inputs
        tensors = {part: each for part, each in made.items() if isinstance(each, torch.Tensor)}
        self.inputs = made | {part: place(each, offset)[1] for part, each in tensors.items()}
        blank = zip(definition.outputs, make_outputs(definition, batch, device), strict=True)
        self._placed = {part: place(each, offset) for part, each in blank}
        self.outputs = {part: view for part, (_, view) in self._placed.items()}

    def run(self, entry: Callable[..., Any], **instead: torch.Tensor) -> None:
        """Call the kernel, with other tensors instead of these."""
        entry(*{**self.inputs, **self.outputs, **instead}.values())
        if torch.cuda.is_available():
            torch.cuda.synchronize()

    def expect(self) -> Mapping[str, ExactOutput]:
        """What is right, by the operator."""
        specs = self._definition.outputs.items()
        found: Mapping[str, ExactOutput] = self.operator.compute_exact(
            self.inputs, {part: torch_dtype(spec.dtype.value) for part, spec in specs}
        )
        return found

    def check(self, outputs: Mapping[str, torch.Tensor], exact: Mapping[str, ExactOutput]) -> None:
        """Compare outputs with what is right."""
        for part, right in exact.items():
            actual, values = outputs[part], right.values
            if (other := right.alternative) is not None:
                nearer = (actual.double() - other.double()).abs() < (actual.double() - values.double()).abs()
                values = torch.where(nearer, other, values)
            tolerance = 0.0 if right.is_strict else None
            found = compare(OutputPair(actual, values, right.bound), tolerance, tolerance)
            assert found.mismatched == 0, (self._definition.name, part, actual.shape, self._offset, found.worst)
        self.check_room()

    def check_room(self) -> None:
        """See that nothing was written beside the outputs."""
        for part, (memory, view) in self._placed.items():
            rest = torch.cat([memory[: self._offset].float(), memory[self._offset + view.numel() :].float()])
            assert (rest == 7).all(), (self._definition.name, part, view.shape, self._offset)
