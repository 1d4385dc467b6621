"""Definitions whose axes and tensors have other names, such as flashinfer-bench's own, work with every command."""

from __future__ import annotations

import pytest

from fib_rmsnorm.registry import Registry
from fib_rmsnorm.schema import Definition
from support.command_line import QUICK_OPTIONS
from support.norms import UPSTREAM
from support.registries import python_manifest
from support.trace_json import lines, trace

NAME = "rmsnorm_h128"
ROWS = {"shape": ["batch_size", "hidden_size"], "dtype": "bfloat16"}
RIGHT = """\
def run(hidden_states, weight):
    x = hidden_states.float()
    return (x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() * weight.float()).to(hidden_states.dtype)
"""


def make_upstream_registry(root) -> Registry:
    for folder in ("definitions", "solutions"):
        (root / folder).mkdir(parents=True)
    registry = Registry(root)
    record = {
        "name": NAME,
        "op_type": "rmsnorm",
        "axes": {"batch_size": {"type": "var"}, "hidden_size": {"type": "const", "value": 128}},
        "inputs": {"hidden_states": ROWS, "weight": {"shape": ["hidden_size"], "dtype": "bfloat16"}},
        "outputs": {"output": ROWS},
        "reference": UPSTREAM,
    }
    registry.write_definition(Definition.model_validate(record))
    for name, eps in {"right": "1e-5", "no_eps": "1e-30", "other_eps": "1e-6"}.items():
        folder = root / "solutions" / "tester" / "rmsnorm" / NAME / name
        folder.mkdir(parents=True)
        (folder / "solution.toml").write_text(python_manifest(name))
        (folder / "kernel.py").write_text(RIGHT.replace("1e-5", eps))
    return registry


def test_upstreams_rmsnorm_from_workloads_to_reports(fib, tmp_path, monkeypatch):
    registry = make_upstream_registry(tmp_path / "registry")
    monkeypatch.chdir(registry.root)
    made = fib("workload", "--definition", NAME, "--batch-sizes", "4,8")
    assert made.code == 0 and made.lines[1].startswith("  batch_size=4")
    assert [each.axes for each in registry.workloads(NAME)] == [{"batch_size": 4}, {"batch_size": 8}]

    benched = fib("bench", *QUICK_OPTIONS, "--batch-sizes", "8")
    assert benched.code == 1
    lines = {line.split()[1]: line for line in benched.lines if line.startswith("batch_size=8 ")}
    assert "PASSED" in lines["right"]
    assert "INCORRECT_NUMERICAL" in lines["no_eps"] and "hard rows, eps=1e-05" in lines["no_eps"]
    mistake = "with eps=1e-06 although another is right: use the eps that the call passes, or the reference's"
    assert mistake in lines["other_eps"]  # of this Definition, no call passes any

    best = fib("best", "--batch-sizes", "8")
    assert best.code == 0 and "batch_size=8" in best.out and "no_eps" not in best.out.partition("\n\n")[0]
    told = fib("report", "--batch-sizes", "8")
    assert told.code == 0 and "batch_size=8" in told.out and told.row("right")
    assert fib("report", "--batch-sizes", "4").code == 2


@pytest.mark.process
def test_upstreams_rmsnorm_is_tried_and_compared(fib, tmp_path, monkeypatch):
    registry = make_upstream_registry(tmp_path / "registry")
    monkeypatch.chdir(registry.root)
    kernel = tmp_path / "mine.py"
    kernel.write_text(RIGHT)
    tried = fib("try", kernel, "--definition", NAME, "--batch-sizes", "8", "--device", "cpu")
    assert tried.code == 0 and "batch_size=8" in tried.out


def test_batch_sizes_are_those_of_the_definitions_row_axis(fib, registry):
    """JSON objects have no order, so a Trace may name another axis first."""
    rows = {"shape": ["rows", "length", "hidden"], "dtype": "float16"}
    record = {
        "name": "pooled",
        "op_type": "norm",
        "axes": {"rows": {"type": "var"}, "length": {"type": "var"}, "hidden": {"type": "const", "value": 128}},
        "inputs": {"x": rows},
        "outputs": {"out": rows},
        "reference": "def run(x):\n    return x\n",
    }
    registry.write_definition(Definition.model_validate(record))
    found = trace()
    found["definition"], found["workload"]["axes"] = "pooled", {"length": 64, "rows": 8}
    path = registry.root / "traces" / "ann" / "norm" / "pooled.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text(lines(found))
    assert fib("report", path, "--batch-sizes", "8").code == 0
    refused = fib("report", path, "--batch-sizes", "64")
    assert refused.code == 2 and "no Trace has batch size 64 (available: 8)" in refused.err
