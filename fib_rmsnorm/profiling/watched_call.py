"""The call that a tool watches: a Solution, once, with the inputs of a Workload."""

from __future__ import annotations

import json
import sys
from contextlib import AbstractContextManager, nullcontext
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


def profiled() -> None:
    """Call what the first argument's file names, between the start and the stop of ncu's profiler."""
    target = read_target(Path(sys.argv[1]))
    call = target.caller.bind(target.inputs, target.outputs)
    call()  # compiles, tunes and allocates
    target.caller.synchronize()
    with _counted(target.device):
        call()
        target.caller.synchronize()


def _counted(device: str) -> AbstractContextManager[object]:
    return nullcontext() if device == "cpu" else torch.cuda.profiler.profile()


def sanitized() -> None:
    """Call what the first file names, with tensors that nothing surrounds, and then make the second file."""
    target = read_target(Path(sys.argv[1]))
    # An allocation for each output, of its size: the tool sees neither red zones nor the inside of an allocation.
    target.outputs.tensors[:] = [torch.empty_like(tensor) for tensor in target.outputs.tensors]
    target.caller.bind(target.inputs, target.outputs)()
    target.caller.synchronize()
    Path(sys.argv[2]).touch()
