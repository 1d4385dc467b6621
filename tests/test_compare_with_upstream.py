"""What the comparison with flashinfer-bench's evaluator can do without the GPU that it needs."""

from __future__ import annotations

from flashinfer_bench.data import TraceSet

from support.paths import REPOSITORY

TOOL = REPOSITORY / "experiments" / "compare_with_upstream.py"


def test_upstream_loads_its_dataset(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(TOOL.parent))
    from compare_with_upstream import DEFINITION, make_dataset

    chosen = make_dataset(tmp_path / "dataset", 32, ["weight_only", "own_stream", "cpp_throws"])
    assert chosen.keys() == {"wrong/weight_only", "honest/own_stream"}
    loaded = TraceSet.from_path(str(tmp_path / "dataset"))
    assert {solution.name for solution in loaded.solutions[DEFINITION]} == set(chosen.values())
    assert [trace.workload.axes for trace in loaded.workloads[DEFINITION]] == [{"batch": 32}]
