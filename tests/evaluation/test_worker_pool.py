"""A worker reads the tensors that Workloads name, and nothing else of the registry."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import save_file

from fib_rmsnorm.evaluation.bench import BenchOptions, bench
from fib_rmsnorm.evaluation.scheduler import Evaluated
from fib_rmsnorm.schema import RandomInput, SafetensorsInput, ScalarInput, Workload
from support.registries import QUICK, RIGHT, add_kernel, make_registry

READS = """
from pathlib import Path


def run(x, weight, eps):
    return print(next(Path({!r}).iterdir()))
"""


@pytest.mark.slow
def test_a_worker_reads_the_tensors_of_workloads_alone(tmp_path):
    registry = make_registry(tmp_path / "registry")
    (definition,) = registry.definitions().values()
    (registry.root / "blob").mkdir()
    save_file({"x": torch.randn(2, 128, dtype=torch.float16)}, registry.root / "blob" / "x.safetensors")
    x = SafetensorsInput(path="blob/x.safetensors", tensor_key="x")
    inputs = {"x": x, "weight": RandomInput(), "eps": ScalarInput(value=1e-6)}
    registry.write_workloads(definition, [Workload(axes={"batch": 2}, inputs=inputs, uuid="u")])
    add_kernel(registry, "right_v1", RIGHT)
    add_kernel(registry, "reads_v1", READS.format(str(registry.layout.workloads)))
    events = bench(registry, BenchOptions(settings=QUICK, device="cpu"))
    found = {event.trace.solution: event.trace.evaluation for event in events if isinstance(event, Evaluated)}
    assert found["right_v1"].status.value == "PASSED", found["right_v1"].log
    assert found["reads_v1"].status.value == "RUNTIME_ERROR"
    assert "PermissionError" in found["reads_v1"].log
