"""The process that compute-sanitizer watches: it calls a Solution once, with tensors that nothing surrounds."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from fib_rmsnorm.profiling.call_target import read_target


def main() -> None:
    """Run the request in the file that the first argument names, and then make the file that the second one names."""
    target = read_target(Path(sys.argv[1]))
    # An allocation for each output, of its size: the tool sees neither red zones nor the inside of an allocation.
    target.outputs.tensors[:] = [torch.empty_like(tensor) for tensor in target.outputs.tensors]
    target.caller.bind(target.inputs, target.outputs)()
    target.caller.synchronize()
    Path(sys.argv[2]).touch()
