"""The process that a tool watches: it confines itself, and then calls a Solution once with the inputs of a Workload.

It does so before torch is imported, whose libraries start threads: a thread that runs already would stay free. The
library of NVIDIA's tool, which is loaded before Python, starts its threads with CUDA (seen with the tools' version
2025.3).
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fib_rmsnorm.sandbox.confinement import confine
from fib_rmsnorm.sandbox.confinement.readable import find_readable

if TYPE_CHECKING:
    from fib_rmsnorm.evaluation.tensors.output_buffers import OutputBuffers
    from fib_rmsnorm.evaluation.worker.caller import SolutionCaller


def main() -> None:
    """Run `profiled` or `sanitized`, the first argument, confined by the request in the file of the second."""
    call, path = sys.argv.pop(1), sys.argv[1]
    request = json.loads(Path(path).read_text(encoding="utf-8"))
    readable, writable = [path, *request["readable"]], [request["own"], request["cache"]]
    confine(find_readable(), readable, writable, reads_counters=request["reads_counters"], is_watched=True)
    os.environ["HOME"] = request["own"]
    tempfile.tempdir = None  # chosen anew: what is readable depended on it
    {"profiled": profiled, "sanitized": sanitized}[call](*_make_call(request))


def _make_call(request: dict[str, Any]) -> tuple[SolutionCaller, dict[str, Any], OutputBuffers]:
    """Build the Solution and make the inputs and outputs that the request names."""
    import torch

    from fib_rmsnorm.building import build_entry
    from fib_rmsnorm.evaluation.tensors.inputs import DeviceWorkload, generate_inputs
    from fib_rmsnorm.evaluation.tensors.output_buffers import OutputBuffers
    from fib_rmsnorm.evaluation.worker.caller import SolutionCaller
    from fib_rmsnorm.schema import Definition, Solution, Workload

    definition = Definition.model_validate(request["definition"])
    solution = Solution.model_validate(request["solution"])
    workload = Workload.model_validate(request["workload"])
    device: str = request["device"]
    if device != "cpu":
        torch.cuda.set_device(device)
    dataset = Path(request["dataset"]) if request["dataset"] else None
    caller = SolutionCaller(build_entry(solution, device, Path(request["cache"])), definition, solution, device)
    called = DeviceWorkload(definition, workload, device, dataset)
    return caller, generate_inputs(called), OutputBuffers(called)


def profiled(caller: SolutionCaller, inputs: dict[str, Any], outputs: OutputBuffers) -> None:
    """Call it between the start and the stop of ncu's profiler."""
    import torch

    call = caller.bind(inputs, outputs)
    call()  # compiles, tunes and allocates
    caller.synchronize()
    with torch.cuda.profiler.profile() if torch.cuda.is_available() else nullcontext():
        call()
        caller.synchronize()


def sanitized(caller: SolutionCaller, inputs: dict[str, Any], outputs: OutputBuffers) -> None:
    """Call it with tensors that nothing surrounds, and then make the file of the last argument."""
    import torch

    # An allocation for each output, of its size: the tool sees neither red zones nor the inside of an allocation.
    outputs.tensors[:] = [torch.empty_like(tensor) for tensor in outputs.tensors]
    caller.bind(inputs, outputs)()
    caller.synchronize()
    Path(sys.argv[2]).touch()
