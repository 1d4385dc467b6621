"""The process that ncu profiles: it calls a Solution once between the profiler's start and stop."""

from __future__ import annotations

import json
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import torch

from fib_rmsnorm.building import build_entry
from fib_rmsnorm.evaluation.tensors.inputs import generate_inputs
from fib_rmsnorm.evaluation.tensors.output_buffers import OutputBuffers
from fib_rmsnorm.evaluation.worker.caller import SolutionCaller
from fib_rmsnorm.schema import Definition, Solution, Workload


def main() -> None:
    """Run the request in the file that the first argument names."""
    request = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    definition = Definition.model_validate(request["definition"])
    solution = Solution.model_validate(request["solution"])
    workload = Workload.model_validate(request["workload"])
    device: str = request["device"]
    if device != "cpu":
        torch.cuda.set_device(device)
    dataset = Path(request["dataset"]) if request["dataset"] else None
    entry = build_entry(solution, device, Path(request["cache"]))
    runner = SolutionCaller(entry, definition, solution, device)
    inputs = generate_inputs(definition, workload, device, dataset)
    call = runner.bind(inputs, OutputBuffers(definition, workload, device))
    call()  # compiles, tunes and allocates
    runner.synchronize()
    with _counted(device):
        call()
        runner.synchronize()


def _counted(device: str) -> AbstractContextManager[object]:
    return nullcontext() if device == "cpu" else torch.cuda.profiler.profile()


if __name__ == "__main__":
    main()
