"""What a process that is watched calls: a Solution with the inputs of a Workload."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from fib_rmsnorm.building import build_entry
from fib_rmsnorm.evaluation.tensors.inputs import generate_inputs
from fib_rmsnorm.evaluation.tensors.output_buffers import OutputBuffers
from fib_rmsnorm.evaluation.worker.caller import SolutionCaller
from fib_rmsnorm.schema import Definition, Solution, Workload


@dataclass(frozen=True)
class CallTarget:
    """A built Solution with the inputs and outputs of one call."""

    caller: SolutionCaller
    inputs: dict[str, Any]
    outputs: OutputBuffers
    device: str


def read_target(path: Path) -> CallTarget:
    """Build the Solution and make the inputs that the request in a file names."""
    request = json.loads(path.read_text(encoding="utf-8"))
    definition = Definition.model_validate(request["definition"])
    solution = Solution.model_validate(request["solution"])
    workload = Workload.model_validate(request["workload"])
    device: str = request["device"]
    if device != "cpu":
        torch.cuda.set_device(device)
    dataset = Path(request["dataset"]) if request["dataset"] else None
    entry = build_entry(solution, device, Path(request["cache"]))
    return CallTarget(
        SolutionCaller(entry, definition, solution, device),
        generate_inputs(definition, workload, device, dataset),
        OutputBuffers(definition, workload, device),
        device,
    )
