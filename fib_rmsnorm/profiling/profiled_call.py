"""The process that ncu profiles: it calls a Solution once between the profiler's start and stop."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import torch

from fib_rmsnorm.profiling.call_target import read_target


def main() -> None:
    """Run the request in the file that the first argument names."""
    target = read_target(Path(sys.argv[1]))
    call = target.caller.bind(target.inputs, target.outputs)
    call()  # compiles, tunes and allocates
    target.caller.synchronize()
    with _counted(target.device):
        call()
        target.caller.synchronize()


def _counted(device: str) -> AbstractContextManager[object]:
    return nullcontext() if device == "cpu" else torch.cuda.profiler.profile()
