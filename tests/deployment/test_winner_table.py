"""The table of winners: what `deploy` makes of Traces, and what it answers for a shape."""

import json
import shutil

import pytest
import torch

from fib_rmsnorm.deployment.winner_table import (
    Candidate,
    MeasuredShape,
    OperatorWinners,
    Shape,
    WinnerTable,
    format_table,
    read_table,
)
from fib_rmsnorm.functional import rms_norm, use_registry, why
from fib_rmsnorm.functional.custom_ops import OPERATORS
from fib_rmsnorm.machine.devices import cpu_device
from support.full_registry import DEFINITION, PYTHON_TRACES
from support.paths import REPOSITORY
from support.registries import make_empty_registry, make_solution

GPU = "NVIDIA H100 80GB HBM3"


def shape(rows: int, hidden: int = 4096, dtype: str = "float16") -> Shape:
    return Shape(rows, hidden, dtype, dtype)


def test_the_shipped_table_is_what_deploy_makes_of_the_published_traces(fib, tmp_path):
    for folder in ("definitions", "solutions", "traces/published"):
        shutil.copytree(REPOSITORY / folder, tmp_path / folder)
    assert fib("deploy", "--root", tmp_path, "--json").answer
    own, shipped = ((root / "winners.json").read_text() for root in (tmp_path, REPOSITORY))
    assert own == shipped, "run: fib-rmsnorm deploy"


def test_a_kernel_that_is_hardly_slower_comes_first_if_its_call_costs_the_host_far_less():
    trace = REPOSITORY / "traces/published/norm/fused_add_rmsnorm_backward_d4096.jsonl"
    found = [json.loads(line) for line in trace.read_text().splitlines()]
    large = [each for each in found if each["workload"]["axes"] == {"batch": 4096}]
    times = {each["solution"]: each["evaluation"]["performance"] for each in large if each["solution"]}
    by_cuda, by_triton = (times[f"fused_add_rmsnorm_backward_{name}_v1"] for name in ("cuda_vec16", "triton_row"))
    assert by_triton["latency_ms"] < by_cuda["latency_ms"] < 1.02 * by_triton["latency_ms"]
    assert by_cuda["host_overhead_us"] + 10 < by_triton["host_overhead_us"]
    first, *_ = read_table(REPOSITORY / "winners.json").find("fused_add_rmsnorm_backward", "cuda", GPU, shape(4096))
    assert first.candidates[0].solution == "fused_add_rmsnorm_backward_cuda_vec16_v1"


def test_a_shape_that_was_not_measured_takes_the_nearest_one_or_what_serves():
    table = read_table(REPOSITORY / "winners.json")
    measured = table.find("rmsnorm", "cuda", GPU, shape(512))
    assert measured[0].shape == shape(512)
    for other in (shape(400), shape(700), shape(512, dtype="bfloat16"), shape(512, hidden=5120)):
        assert table.find("rmsnorm", "cuda", GPU, other) == measured
    for operator in OPERATORS.values():
        assert "cuda" in table.operators[operator].unmeasured, operator
    for operator, kind, solutions in (
        ("rmsnorm", "cpu", ("rmsnorm_cpp_simd_v1",)),
        ("rmsnorm_backward", "cpu", ("rmsnorm_backward_cpp_simd_v1",)),
        ("rmsnorm_fp8", "cpu", ()),
        ("unknown", "cuda", ()),
    ):
        assert table.find(operator, kind, "a device", shape(8)) == (None, solutions)


@pytest.mark.compile
def test_why_names_the_kernel_or_says_why_torch_serves():
    x = torch.ones(3, 64)
    answer = str(why(x, torch.ones(64)))
    assert answer.startswith("rmsnorm_cpp_simd_v1 serves rmsnorm on ")
    assert "in a compiled model torch's compiler computes it" in answer
    answer = str(why(x.double()))
    assert "torch serves rmsnorm_no_weight" in answer
    assert "no kernel takes float64" in answer
    half = why(x.half(), torch.ones(64), convention="llama")
    assert half.kernel is None
    assert "rmsnorm_llama_cpp_simd_v1: takes no weight in float32 beside float16" in half.passed_over
    answer = str(why(x, torch.ones(64), residual=x, convention="llama"))
    assert answer.startswith("rmsnorm_llama_cpp_simd_v1 serves rmsnorm_llama")
    assert (
        "the registry has no fused_add_rmsnorm_llama that may serve on cpu\nso torch adds x and the residual" in answer
    )


def test_a_registry_without_a_table_is_refused(tmp_path):
    make_empty_registry(tmp_path)
    with pytest.raises(Exception, match=r"winners\.json; make it with: fib-rmsnorm deploy"):
        use_registry(tmp_path)


def test_deploy_needs_traces_and_solutions(fib, tmp_path):
    make_empty_registry(tmp_path)
    assert "no Solution by fib-rmsnorm in" in fib("deploy", "--root", tmp_path).refusal
    assert fib("deploy", "--build", "x.json").code == 2
    (tmp_path / "traces").mkdir()
    refusal = fib("deploy", tmp_path / "traces", "--authors", "me", "--root", tmp_path).refusal
    assert "no Solution by me in" in refusal and "such as rmsnorm_d4096" in refusal


def test_deploy_without_published_traces_names_what_makes_some(fib, full_registry):
    assert fib("deploy").err.endswith("; to choose among those of others, add: --authors\n")
    said = fib("deploy", "--authors", "baseline").err
    bench = f"fib-rmsnorm bench --definitions {DEFINITION}"
    deploy = f"fib-rmsnorm deploy {full_registry.root / 'traces'} --authors baseline"
    assert said.endswith(f"; to choose by your own: {bench}; then run: {deploy}\n")
    assert fib(*deploy.split()[1:]).code == 0
    assert "none is of Solutions by ann" in fib("deploy", PYTHON_TRACES, "--authors", "ann").err
    assert "No Trace decides" not in fib("deploy", PYTHON_TRACES, "--authors", "baseline").err


def test_a_table_with_a_shape_that_nothing_serves_is_refused(fib, tmp_path):
    make_empty_registry(tmp_path)
    measured = MeasuredShape(shape(2, 128), ())
    table = WinnerTable({"rmsnorm": OperatorWinners({}, {cpu_device().hardware: (measured,)})})
    path = tmp_path / "winners.json"
    path.write_text(format_table(table))
    refusal = fib("deploy", "--build", "--root", tmp_path).refusal
    assert f"{path}: is not a table of winners: " in refusal and ".candidates`; make it with" in refusal


PICKY = """\
def run(x, weight, eps, out):
    if x.shape[1] % 128:
        raise ValueError("needs hidden to be a multiple of 128")
    out.fill_(42)
"""


@pytest.fixture
def own_registry(tmp_path):
    """A user's registry, where a kernel that takes few shapes comes before the C++ one."""
    folder = make_empty_registry(tmp_path).layout.solutions / "me" / "norm" / "rmsnorm_d4096"
    folder.mkdir(parents=True)
    picky = make_solution("rmsnorm_python_picky_v1", "k.py", PICKY, author="me", definition="rmsnorm_d4096")
    (folder / f"{picky.name}.json").write_text(picky.model_dump_json())
    (cpp,) = (REPOSITORY / "solutions").rglob("rmsnorm_cpp_simd_v1.json")
    shutil.copy(cpp, folder)
    measured = MeasuredShape(shape(2, 128), (Candidate(picky.name, 1.5, "traces/me/norm/d.jsonl:3"),))
    here = cpu_device().hardware
    winners = OperatorWinners({"cpu": ("rmsnorm_cpp_simd_v1",)}, {here: (measured,), "another CPU": ()})
    (tmp_path / "winners.json").write_text(format_table(WinnerTable({"rmsnorm": winners})))
    use_registry(tmp_path)
    yield tmp_path
    use_registry(None)


@pytest.mark.compile
def test_a_kernel_that_refuses_a_shape_leaves_it_to_the_next(own_registry):
    weight = torch.ones(128)
    assert torch.equal(rms_norm(torch.ones(2, 128), weight), torch.full((2, 128), 42.0))
    answer = str(why(torch.ones(2, 128), weight))
    assert "1.5 us at 2 rows of 128 in float16, the nearest shape measured: traces/me/norm/d.jsonl:3" in answer
    for _ in range(2):
        torch.testing.assert_close(rms_norm(torch.ones(2, 96), weight[:96], 0.0), torch.ones(2, 96))
    chosen = why(torch.ones(2, 96), weight[:96])
    assert chosen.kernel.solution == "rmsnorm_cpp_simd_v1"
    assert chosen.passed_over == ("rmsnorm_python_picky_v1: refused the call",)


@pytest.mark.compile
def test_deploy_builds_what_its_table_names_ahead_of_use(fib, own_registry):
    first, *_, last = fib("deploy", "--build", "--root", own_registry, "--json").answer
    assert (first["solution"], first["device"], first["error"]) == ("rmsnorm_python_picky_v1", "cpu", None)
    assert (last["solution"], last["device"], last["error"]) == ("quick_norms.cpp", "cpu", None)
