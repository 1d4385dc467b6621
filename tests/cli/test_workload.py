from __future__ import annotations

import json

import pytest

from support.full_registry import DEFINITION, DEFINITION_FILE, WORKLOAD_FILE
from support.record_faults import edit


def batches(registry):
    return [workload.axes["batch"] for workload in registry.workloads(DEFINITION)]


def test_those_there_are_kept(fib, full_registry):
    before = full_registry.workloads(DEFINITION)
    outcome = fib("workload", "--definition", DEFINITION, "--batch-sizes", "4,8")
    assert outcome.code == 0 and outcome.err == ""
    assert batches(full_registry) == [1, 4, 8]
    assert [each for each in full_registry.workloads(DEFINITION) if each.axes["batch"] != 4] == before
    assert "Wrote workloads/norm/rmsnorm_d128.jsonl; kept 1 existing Workload" in outcome.lines


def test_one_that_is_replaced_is_told_with_its_traces(fib, full_registry):
    outcome = fib("workload", "--definition", DEFINITION, "--batch-sizes", "8,32", "--replace")
    assert outcome.code == 0 and batches(full_registry) == [8, 32]
    assert outcome.err == "Removed 1 Workload of 2 Traces, which validate rejects now\n"
    assert fib("validate").code == 1
    assert fib("workload", "--definition", DEFINITION, "--batch-sizes", "1").code == 0
    assert fib("validate").code == 0
    outcome = fib("workload", "--definition", DEFINITION, "--batch-sizes", "1,8", "--replace", "--json")
    assert outcome.err == "Removed 1 Workload; no Trace refers to it\n"
    assert len(json.loads(outcome.out)) == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("workload", "--batch-sizes", "99999999999"), "batch sizes must be at most 2147483647"),
        (("workload", "--set", "eps=1e300"), "eps must be 0 or a finite float32, not 1e+300"),
        (("workload", "--set", "eps=1e-50"), "eps must be 0 or a finite float32, not 1e-50"),
        (("workload", "--set", "eps=-1e-6"), "eps must be at least 0, not -1e-06"),
        (("workload", "--set", "eps=small"), "--set eps=small: 'small' is not a number"),
        (("workload", "--set", "eps=true"), "eps must be 0 or a finite float32, not True"),
        (("workload", "--set", "1e-6"), "--set '1e-6': expected NAME=VALUE"),
        (("workload", "--set", "eps=1", "--set", "eps=2"), "--set eps: given twice"),
        (("workload", "--set", "scale=2"), "'scale' is not a scalar input (available: eps)"),
        (("workload", "--axes", "heads=2"), "'heads' is not a variable axis (available: batch)"),
        (("workload", "--axes", "batch=two"), "--axes: 'two' is not a positive integer"),
        (("workload", "--axes", "batch=2", "--batch-sizes", "3"), "its batch size is 'batch', which has sizes already"),
        (("define", "--hidden", "128000000000"), "hidden must be at most 1048576"),
        (("define", "--dtype", "FP16"), "float16, bfloat16, float32, fp16, bf16, fp32"),
    ],
)
def test_what_cannot_be_is_refused(fib, full_registry, arguments, said):
    before = {path: path.read_bytes() for path in full_registry.root.rglob("*.json*")}
    outcome = fib(*arguments, *(["--definition", DEFINITION] if arguments[0] == "workload" else []))
    assert outcome.code == 2 and said in outcome.err and len(outcome.err.splitlines()) == 1
    assert {path: path.read_bytes() for path in full_registry.root.rglob("*.json*")} == before


@pytest.mark.parametrize("replace", [(), ("--replace",)])
def test_sizes_that_break_a_constraint_are_refused_and_default_ones_left_out(fib, full_registry, replace):
    edit(DEFINITION_FILE, "constraints", ["batch % 8 == 0"])
    before = (full_registry.root / WORKLOAD_FILE).read_text()
    fault = f"constraint 'batch % 8 == 0' of {DEFINITION} does not hold"
    for sizes in ("--batch-sizes=8,3", "--axes=batch=3"):
        outcome = fib("workload", "--definition", DEFINITION, sizes, *replace)
        assert (outcome.code, outcome.err) == (2, f"fib-rmsnorm: {fault} (batch=3); give other sizes\n")
    edit(DEFINITION_FILE, "constraints", ["batch % 8 == 3"])
    outcome = fib("workload", "--definition", DEFINITION, *replace, "--device", "cpu")
    assert outcome.code == 2 and "(batch=1); give other sizes" in outcome.err
    assert (full_registry.root / WORKLOAD_FILE).read_text() == before
    edit(DEFINITION_FILE, "constraints", ["batch % 8 == 0"])
    assert fib("workload", "--definition", DEFINITION, "--replace", "--device", "cpu").code == 0
    assert batches(full_registry)[:2] == [8, 32]


def test_json_has_what_was_made(fib, full_registry):
    outcome = fib("workload", "--definition", DEFINITION, "--batch-sizes", "4", "--json")
    assert [each["axes"] for each in json.loads(outcome.out)] == [{"batch": 4}]


def test_a_missing_batch_is_added_as_bench_says(fib, full_registry):
    outcome = fib("bench", "--batch-sizes", "16", "--device", "cpu")
    assert outcome.code == 2
    command = outcome.err.partition("run: fib-rmsnorm ")[2].split()
    assert fib(*command).code == 0 and batches(full_registry) == [1, 8, 16]
