"""What the comparison with flashinfer-bench's evaluator can do without the GPU that it needs."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from flashinfer_bench.data import TraceSet

from support.paths import REPOSITORY

TOOL = REPOSITORY / "experiments" / "compare_with_upstream.py"


@pytest.mark.process
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_it_says_that_it_needs_a_gpu():
    found = subprocess.run([sys.executable, TOOL], capture_output=True, text=True, check=False)
    assert found.returncode == 2
    assert "CUDA device" in found.stderr


def test_upstream_loads_its_dataset(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(TOOL.parent))
    from compare_with_upstream import DEFINITION, make_dataset

    chosen = make_dataset(tmp_path / "dataset", 32, ["weight_only", "own_stream", "cpp_throws"])
    assert chosen.keys() == {"wrong/weight_only", "honest/own_stream"}
    loaded = TraceSet.from_path(str(tmp_path / "dataset"))
    assert {solution.name for solution in loaded.solutions[DEFINITION]} == set(chosen.values())
    assert [trace.workload.axes for trace in loaded.workloads[DEFINITION]] == [{"batch": 32}]
