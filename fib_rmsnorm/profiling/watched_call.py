"""The process that a tool watches: it confines itself, and then calls a Solution once with the inputs of a Workload.

It does so before torch is imported, whose libraries start threads: a thread that runs already would stay free. The
library of NVIDIA's tool, which is loaded before Python, starts its threads with CUDA (seen with the tools' version
2025.3).
"""

import os
import tempfile
from contextlib import nullcontext
from pathlib import Path

from pydantic import BaseModel

from fib_rmsnorm.sandbox.confinement import confine
from fib_rmsnorm.sandbox.confinement.readable import find_readable
from fib_rmsnorm.schema import CheckedDefinition, Solution, Workload


class WatchedRequest(BaseModel):
    """The call that a process makes, and the files that it uses."""

    definition: CheckedDefinition
    solution: Solution
    workload: Workload
    device: str
    dataset: Path | None
    cache: Path
    own: Path
    """The folder for its temporary files."""
    readable: list[Path]


def main(path: str) -> None:
    """Make the call of a request's file, confined by it."""
    request = WatchedRequest.model_validate_json(Path(path).read_text(encoding="utf-8"))
    writable = [request.own, request.cache]
    confine(find_readable(), [Path(path), *request.readable], writable, is_watched=True)
    os.environ["HOME"] = str(request.own)
    tempfile.tempdir = None  # chosen anew: what is readable depended on it

    import torch

    from fib_rmsnorm.building import build_entry
    from fib_rmsnorm.evaluation.tensors.inputs import DeviceWorkload, generate_inputs
    from fib_rmsnorm.evaluation.tensors.output_buffers import OutputBuffers
    from fib_rmsnorm.evaluation.worker.caller import SolutionCaller

    definition, solution, device = request.definition, request.solution, request.device
    if device != "cpu":
        torch.cuda.set_device(device)
    caller = SolutionCaller(build_entry(solution, device, request.cache), definition, solution, device)
    called = DeviceWorkload(definition, request.workload, device, request.dataset)
    inputs, outputs = generate_inputs(called), OutputBuffers(called)
    call = caller.bind(inputs, outputs)
    call()  # compiles, tunes and allocates
    caller.synchronize()
    with torch.cuda.profiler.profile() if torch.cuda.is_available() else nullcontext():
        call()
        caller.synchronize()
