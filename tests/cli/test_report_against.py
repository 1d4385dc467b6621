"""Outputs of two Solutions on the same inputs: `bench --against` has them compared, `report --against` tells."""

import pytest

from fib_rmsnorm.evaluation.bench import BenchOptions, bench
from fib_rmsnorm.evaluation.plan import Selection
from fib_rmsnorm.operators.norms.fused_add_rmsnorm import FusedAddRmsNorm
from fib_rmsnorm.reports.evaluations import describe_run
from fib_rmsnorm.schema import Trace
from support.kernels import change
from support.registries import QUICK, add_definition, add_kernel, make_empty_registry
from support.trace_json import trace

RIGHT = FusedAddRmsNorm.reference
ROUNDS = change(RIGHT, "    mean_square", "    total = total.to(x.dtype).to(torch.float32)\n    mean_square")
"""It normalizes the rounded sum, which changes no output but `out`."""
BATCH = 8
ELEMENTS = BATCH * 128


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    """The Traces of a bench against `plain_v1`, which was not chosen itself."""
    root = tmp_path_factory.mktemp("against") / "registry"
    registry = make_empty_registry(root)
    add_definition(registry, FusedAddRmsNorm().define(128), [BATCH])
    for name, source in {"plain_v1": RIGHT, "same_v1": f"# again\n{RIGHT}", "rounds_v1": ROUNDS}.items():
        add_kernel(registry, name, source)
    output = root / "traces.jsonl"
    chosen = Selection(solutions=("same_v1", "rounds_v1"), against="plain*")
    for _ in bench(registry, BenchOptions(chosen, settings=QUICK, device="cpu", output=output)):
        pass
    return output


def rows(outcome):
    return {(row["solution"], row["output"], row["judged_on"]): row for row in outcome.json}


def test_equal_outputs_are_reported_output_by_output_and_each_row_says_on_what(fib, traces):
    found = rows(fib("report", traces, "--against", "plain_v1", "--json"))
    assert {(solution, output) for solution, output, _ in found} == {
        (solution, output) for solution in ("same_v1", "rounds_v1") for output in ("out", "new_residual")
    }
    for (solution, output, kind), row in found.items():
        is_same = solution == "same_v1" or output == "new_residual"
        assert (row["equal"] == row["elements"]) == is_same
        assert (row["max_absolute"] == row["max_relative"] == row["ulp"]["maximum"] == 0) == is_same
        if kind == "hard" and not is_same:
            assert row["max_absolute"] is None  # the rounded sum overflows, and its norm is a NaN
        assert row["ulp"]["histogram"]["0"] == row["equal"]
        assert sum(row["ulp"]["histogram"].values()) == row["elements"]
    assert rows(fib("report", traces, "--against", "pl?in*", "--json")) == found
    own = found["rounds_v1", "out", "workload"]
    assert own["definition"] == "fused_add_rmsnorm_d128" and own["against"] == "plain_v1"
    assert (own["axes"], own["constants"], own["dtype"]) == ({"batch": BATCH}, {"hidden": 128}, "float16")
    assert list(own["inputs"]) == ["x", "residual", "weight", "eps"]
    assert own["elements"] == ELEMENTS and own["status"] == "INCORRECT_NUMERICAL"
    assert found["rounds_v1", "out", "hard"]["elements"] % ELEMENTS == 0


def test_the_table_has_a_line_for_each_output_and_kind_of_inputs(fib, traces):
    outcome = fib("report", traces, "--against", "plain_v1")
    assert outcome.code == 0
    assert outcome.lines[0].startswith("fused_add_rmsnorm_d128 on ")
    assert outcome.lines[0].endswith(": outputs against plain_v1")
    assert outcome.lines[2].split()[:6] == ["solution", "batch", "hidden", "output", "dtype", "inputs"]
    outputs = [line.split()[3] for line in outcome.lines[3:9]]
    assert outputs == ["out"] * 3 + ["new_residual"] * 3  # the order of the Definition
    same = outcome.row("same_v1", "new_residual", "own").split()
    assert same[1:3] == ["8", "128"] and same[-1] == "0" and "all" in same
    different = outcome.row("rounds_v1", "out", "own").split()
    share = float(next(cell for cell in different if cell.endswith("%")).rstrip("%"))
    assert 50 < share < 100 and int(different[-1]) >= 1
    assert "x (float16), residual (float16), weight (float16), eps (float32)" in outcome.out


def test_a_bench_ends_with_the_largest_difference(traces):
    told = describe_run([Trace.model_validate_json(line) for line in traces.read_text().splitlines()])
    line = next(part for part in told if str(part).startswith("Largest difference from the peer's outputs: 0.0"))
    assert str(line).endswith(" (rounds_v1) and 0 (same_v1).")


def test_one_trace_shows_its_cases_and_no_peer(fib, traces):
    told = fib("show", "rounds_v1@batch=8", "--root", traces.parent).out
    assert '"cases"' not in told and "cases:" not in told and "against" not in told


def test_what_was_never_compared_says_how_to_do_it(fib, traces, file, tmp_path, monkeypatch):
    there = fib("report", traces, "--against", "rounds_v1")
    assert there.code == 2 and there.err.endswith(
        "no Trace was compared with a Solution 'rounds_v1' (found: plain_v1); to compare outputs, run:"
        " fib-rmsnorm bench --definitions fused_add_rmsnorm_d128 --against rounds_v1\n"
    )
    assert fib("report", traces, "--against", "r*_v1").err.endswith("rmsnorm_d128 --against 'r*_v1'\n")
    other = file(trace())
    monkeypatch.chdir(tmp_path)  # beside no registry
    outside = fib("report", other, "--against", "quack").err
    assert "(found" not in outside and outside.endswith("--against quack\n")
