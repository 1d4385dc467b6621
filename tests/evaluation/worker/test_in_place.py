"""A Solution may write outputs to the memory of inputs, if it says which: upstream's kernels for add + RMSNorm do."""

from __future__ import annotations

import json

import pytest
import torch

from fib_rmsnorm.evaluation.tensors.inputs import generate_inputs
from fib_rmsnorm.evaluation.tensors.output_buffers import OutputBuffers
from fib_rmsnorm.evaluation.worker.caller import SolutionCaller
from fib_rmsnorm.operators import find_operator
from fib_rmsnorm.registry import Registry, generate_workloads
from support.command_line import QUICK_OPTIONS
from support.norms import kernel_for
from support.registries import python_manifest

DEFINITION = find_operator("fused_add_rmsnorm").define(128)
BOTH = {"out": "x", "new_residual": "residual"}
SUM = """\
import torch


def run(x, residual, weight, eps{more}):
    total = x.float() + residual.float()
    rstd = torch.rsqrt(total.square().mean(dim=-1, keepdim=True) + eps)
    {out}.copy_(total * rstd * weight.float())
    residual.copy_(total)
"""
IN_BOTH = SUM.format(more="", out="x")
IN_ONE = SUM.format(more=", out", out="out")
RETURNS = (
    SUM.format(more="", out="x")
    .replace("    x.copy_(", "    out = (")
    .replace("weight.float())", "weight.float()).half()")
)
KERNELS = {
    "in_both": (IN_BOTH, BOTH),
    "in_one": (IN_ONE, {"new_residual": "residual"}),
    "weight_too": (f"{IN_BOTH}    weight.zero_()\n", BOTH),
    "not_added": (IN_BOTH.replace("    residual.copy_(total)\n", ""), BOTH),
    "not_declared": (f"{RETURNS}    return out, residual.clone()\n", {}),
}


def manifest_of(name: str, in_place: dict[str, str]) -> str:
    if not in_place:
        return python_manifest(name)
    pairs = ", ".join(f'{output} = "{source}"' for output, source in in_place.items())
    return python_manifest(name).replace("style = false", f"style = true\nin_place = {{{pairs}}}")


@pytest.fixture
def sums(tmp_path) -> Registry:
    """A registry with the Definition, a Workload, and the kernels as folders of sources."""
    registry = Registry(tmp_path / "registry")
    (registry.root / "definitions").mkdir(parents=True)
    registry.write_definition(DEFINITION)
    registry.write_workloads(DEFINITION, generate_workloads(DEFINITION, [8]))
    for name, (source, in_place) in KERNELS.items():
        folder = registry.root / "solutions" / "tester" / "norm" / DEFINITION.name / name
        folder.mkdir(parents=True)
        (folder / "kernel.py").write_text(source)
        (folder / "solution.toml").write_text(manifest_of(name, in_place))
    return registry


@pytest.mark.parametrize(("source", "in_place"), [KERNELS["in_both"], KERNELS["in_one"]])
def test_the_call_gets_a_copy_of_the_input_in_the_buffer_of_the_output(source, in_place):
    namespace: dict[str, object] = {}
    exec(source, namespace)
    solution = kernel_for(DEFINITION, "any", source)
    spec = solution.spec.model_copy(update={"destination_passing_style": True, "in_place": in_place})
    caller = SolutionCaller(namespace["run"], DEFINITION, solution.model_copy(update={"spec": spec}), "cpu")
    (workload,) = generate_workloads(DEFINITION, [3])
    inputs = generate_inputs(DEFINITION, workload, "cpu")
    before = {name: value.clone() for name, value in inputs.items() if isinstance(value, torch.Tensor)}
    buffers = OutputBuffers(DEFINITION, workload, "cpu")
    for _ in range(2):  # a second call does not see what the first one wrote
        (_, total), _ = caller.run_checked(inputs, buffers)
        assert torch.equal(total, (before["x"].float() + before["residual"].float()).half())
        assert all(torch.equal(inputs[name], value) for name, value in before.items())


@pytest.mark.parametrize(
    ("in_place", "style", "said"),
    [
        ('{y = "x"}', "true", "has no output 'y' (available: out, new_residual)"),
        ('{out = "y"}', "true", "has no input 'y' (available: x, residual, weight, eps)"),
        ('{out = "weight"}', "true", "'out' and 'weight' differ in shape or dtype"),
        ('{out = "x", new_residual = "x"}', "true", "two outputs have the same input"),
        ('{out = "x"}', "false", "in_place needs destination_passing_style = true"),
    ],
)
def test_what_cannot_be_in_place_is_refused_in_a_line(fib, sums, in_place, style, said):
    manifest = next(sums.root.rglob("in_one/solution.toml"))
    text = manifest.read_text().replace('{new_residual = "residual"}', in_place)
    manifest.write_text(text.replace("style = true", f"style = {style}"))
    solved = fib("solve", "--root", sums.root)
    assert solved.code == 2 and said in solved.err and len(solved.err.splitlines()) == 1
    tried = fib("try", manifest.parent, "--definition", DEFINITION.name, "--root", sums.root)
    assert tried.code == 2 and said in tried.err.splitlines()[-1]


@pytest.mark.process
def test_its_timed_calls_are_judged_too(fib, sums, tmp_path):
    benched = fib("bench", *QUICK_OPTIONS, "--root", sums.root, "--output", tmp_path / "traces.jsonl")
    assert benched.code == 1, benched.err
    found = map(json.loads, (tmp_path / "traces.jsonl").read_text().splitlines())
    traces = {each["solution"]: each["evaluation"] for each in found}
    passed = {name for name, each in traces.items() if each["status"] == "PASSED"}
    assert passed == {"in_both", "in_one"}
    assert "changed its input 'weight'; an output may take its place if" in traces["weight_too"]["log"]
    assert "changed its input 'residual'" in traces["not_declared"]["log"]
    first = traces["not_added"]["log"].splitlines()[0]
    assert first == "new_residual: the output equals the residual that was passed: write x + residual"
