"""What a kernel writes beyond its outputs is found."""

from __future__ import annotations

import torch

from fib_rmsnorm.evaluation.tensors.output_buffers import OutputBuffers, find_overrun
from fib_rmsnorm.operators import RmsNorm
from fib_rmsnorm.registry import generate_workloads


def test_writes_beyond_an_output_stay_visible():
    definition = RmsNorm().define(4096)
    (workload,) = generate_workloads(definition, [2])
    buffers, others = (OutputBuffers(definition, workload, "cpu") for _ in range(2))
    (out,) = buffers.tensors
    torch.as_strided(out, (4096,), (1,), out.storage_offset() + 3 * 4096).zero_()  # leaves a row out
    buffers.poison()
    assert find_overrun([others, buffers]) == ["out"]
    assert find_overrun([others]) == find_overrun([]) == []
    assert out.isnan().all()
