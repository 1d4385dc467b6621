"""Call a solution on rows that lie beyond 2^31 elements of their tensors, which take little memory.

Only these rows have memory of their own. What lies before them is the same few pages, mapped again and again. Before
the tensor nothing is mapped: a kernel that computes offsets in 32 bits wraps there, and its call fails.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from fib_rmsnorm.evaluation.tensors.inputs import DeviceWorkload
from fib_rmsnorm.evaluation.tensors.output_buffers import OutputBuffers
from fib_rmsnorm.evaluation.worker.caller import SolutionCaller
from fib_rmsnorm.evaluation.worker.device_pages import DevicePages

FAR_ELEMENTS = 1 << 31
"""The first offset that a signed integer of 32 bits cannot hold."""
_REPEATED_BYTES = 32 << 20


def call_far(caller: SolutionCaller, called: DeviceWorkload, inputs: dict[str, Any], axis: str) -> list[torch.Tensor]:
    """Call on inputs whose rows are the last of tensors that have more than FAR_ELEMENTS elements before them.

    `axis` counts the rows, and comes first wherever it occurs. Returns the outputs of these rows alone, and those that
    have no rows. Raises RefusalError if the call fails.
    """
    specs = called.definition.inputs
    of_rows = {name: value for name, value in inputs.items() if axis in (specs[name].shape or ())}
    elements = max(value[0].numel() for value in of_rows.values())
    # A multiple of 16 before them, so that Triton has no other kernel for this number of rows.
    before = -(-FAR_ELEMENTS // elements // 16) * 16
    own = called.workload.axes[axis]
    workload = called.workload.model_copy(update={"axes": {**called.workload.axes, axis: before + own}})
    with DevicePages() as pages:

        def allocate(nbytes: int, _: str) -> torch.Tensor:
            """Bytes for a tensor of all rows, or for one that has none."""
            size = pages.round_up(nbytes)
            of_own_rows = pages.round_up(nbytes * own // (before + own) + pages.page_bytes)
            repeated = max(0, size - of_own_rows) // _REPEATED_BYTES * _REPEATED_BYTES
            parts = [(repeated, _REPEATED_BYTES), (size - repeated, size - repeated)]
            return pages.map(parts, room=8 * FAR_ELEMENTS)[:nbytes]

        far = {}
        for name, value in of_rows.items():
            nbytes = (before + own) * value[0].numel() * value.element_size()
            whole = allocate(nbytes, called.device).zero_().view(value.dtype).view(-1, *value.shape[1:])
            whole[before:] = value
            far[name] = whole
        buffers = OutputBuffers(replace(called, workload=workload), allocate)
        found = zip(caller.run_once({**inputs, **far}, buffers), called.definition.outputs.values(), strict=True)
        outputs = [(each[before:] if axis in (spec.shape or ()) else each).clone() for each, spec in found]
        del far, whole, buffers
        return outputs
