"""Definitions whose axes and tensors have other names, such as flashinfer-bench's own, work with every command."""

import re
from pathlib import Path

import pytest

from support.command_line import QUICK_OPTIONS
from support.norms import UPSTREAM, define_norm
from support.paths import write
from support.registries import DOUBLES, SCALED, add_sources, make_definition, make_empty_registry, python_manifest
from support.trace_json import lines, trace

NAME = "rmsnorm_h128"


def test_upstreams_rmsnorm_from_workloads_to_reports(fib, tmp_path, monkeypatch):
    registry, names = make_empty_registry(tmp_path / "registry"), ("hidden_states", "weight", "output")
    registry.write_definition(define_norm(NAME, UPSTREAM, names, eps=None, dtype="bfloat16"))
    for name, eps in {"right": "1e-5", "no_eps": "1e-30", "other_eps": "1e-6"}.items():
        add_sources(registry, name, {"kernel.py": UPSTREAM.replace("1e-5", eps)})
    monkeypatch.chdir(registry.root)
    made = fib("workload", "--definition", NAME, "--batch-sizes", "4,8")
    assert made.code == 0 and made.lines[1].startswith("  tokens=4")
    assert [each.axes for each in registry.workloads(NAME)] == [{"tokens": 4}, {"tokens": 8}]

    benched = fib("bench", *QUICK_OPTIONS, "--batch-sizes", "8")
    assert benched.code == 1
    lines = {line.split()[1]: line for line in benched.lines if line.startswith("tokens=8 ")}
    assert "PASSED" in lines["right"]
    assert "INCORRECT_NUMERICAL" in lines["no_eps"] and "hard rows, eps=1e-05" in lines["no_eps"]
    mistake = "with eps=1e-06 although another is right: use the eps that the call passes, or the reference's"
    assert mistake in lines["other_eps"]  # of this Definition, no call passes any

    best = fib("best", "--batch-sizes", "8")
    assert best.code == 0 and "tokens=8" in best.out and "no_eps" not in best.out.partition("\n\n")[0]
    told = fib("report", "--batch-sizes", "8")
    assert told.code == 0 and "tokens=8" in told.out and told.row("tokens=8", "right")
    assert fib("report", "--batch-sizes", "4").code == 2


def test_batch_sizes_are_those_of_the_definitions_row_axis(fib, registry):
    """JSON objects have no order, so a Trace may name another axis first."""
    rows = "float16 rows length hidden"
    source = "def run(x):\n    return x\n"
    registry.write_definition(make_definition("pooled", source, {"x": rows}, {"out": rows}, hidden=128))
    found = trace()
    found["definition"], found["workload"]["axes"] = "pooled", {"length": 64, "rows": 8}
    path = write("traces/ann/norm/pooled.jsonl", lines(found))
    assert fib("report", path, "--batch-sizes", "8").code == 0
    assert "no Trace has batch size 64 (available: 8)" in fib("report", path, "--batch-sizes", "64").refusal


OF_HEADS = """\
# definition: of_heads
def run(q, weight, eps):
    x = q.float()
    return (x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * weight.float()).to(q.dtype)
"""
GRADIENTS = """\
# definition: gradients
def run(dy, x, weight, rstd):
    n, w = x.float() * rstd[..., None], dy.float() * weight.float()
    dx = (w - n * (w * n).mean(-1, keepdim=True)) * rstd[..., None]
    return dx.to(x.dtype), (dy.float() * n).sum((0, 1)).to(weight.dtype)
"""
HEADS, SEQUENCES = "float16 tokens heads head_dim", "float16 batch sequence hidden"
ROWS_OF_SEVERAL_AXES = {
    "of_heads": make_definition(
        "of_heads",
        OF_HEADS,
        {"q": HEADS, "weight": "float16 head_dim", "eps": "float32"},
        {"out": HEADS},
        heads=3,
        head_dim=128,
    ),
    "gradients": make_definition(
        "gradients",
        GRADIENTS,
        {"dy": SEQUENCES, "x": SEQUENCES, "weight": "float16 hidden", "rstd": "float32 batch sequence"},
        {"dx": SEQUENCES, "dweight": "float16 hidden"},
        hidden=128,
    ),
}


def add_rows_of_several_axes(fib, registry, name) -> str:
    """Write a Definition of rows that several axes count, and a Workload of it. Returns its reference."""
    definition = ROWS_OF_SEVERAL_AXES[name]
    registry.write_definition(definition)
    sizes = [f"--axes={axis}=5" for axis in definition.var_axes]
    assert fib("workload", "--definition", name, *sizes).code == 0
    return definition.reference


@pytest.mark.process
@pytest.mark.parametrize(
    ("name", "right", "wrong", "mistake"),
    [
        ("of_heads", "mean(-1, keepdim=True) + eps", "mean(-1, keepdim=True) + 0 * eps", "RMSNorm without eps"),
        ("of_heads", "mean(-1, keepdim=True)", "mean((-2, -1), keepdim=True)", ""),
        ("gradients", "(w * n).mean(-1, keepdim=True)", "(w * n).mean((1, 2), keepdim=True)", ""),
    ],
)
def test_rows_of_several_axes_are_judged_by_their_operator(fib, registry, name, right, wrong, mistake):
    """A norm of each head, and of [batch, sequence, hidden]: by hard inputs, and at another size."""
    source = add_rows_of_several_axes(fib, registry, name)
    Path("kernel.py").write_text(source)
    assert right in source
    Path("wrong.py").write_text(source.replace(right, wrong))
    outcome = fib("try", "kernel.py", "--check", "--device", "cpu")
    assert outcome.code == 0, outcome.out
    assert "hard inputs and odd sizes included" in outcome.out
    outcome = fib("try", "wrong.py", "--check", "--device", "cpu")
    assert outcome.code == 1 and "hard rows" in outcome.out and mistake in outcome.out
    assert re.search(r"out: .* worst at \[\d+, \d+, \d+\]: |dx: .* worst at \[\d+, \d+, \d+\]: ", outcome.out)


@pytest.mark.process
def test_strided_rows_of_several_axes_have_a_stride_each(fib, registry):
    source = add_rows_of_several_axes(fib, registry, "of_heads")
    folder = write("kernel/solution.toml", python_manifest("kernel") + "strided = true\n").parent
    for strides, mistake in {
        "q.stride()": "",
        "(q.stride(1) * q.shape[1], q.stride(1), 1)": "strided rows: out: ",
        "(q.shape[1] * q.shape[2], q.shape[2], 1)": "as if contiguous: use q.stride(0), q.stride(1)\n",
    }.items():
        (folder / "kernel.py").write_text(source.replace("q.float()", f"q.as_strided(q.shape, {strides}).float()"))
        outcome = fib("try", folder, "--definition", "of_heads", "--check", "--device", "cpu")
        assert outcome.code == bool(mistake) and mistake in outcome.out
        assert ("if contiguous" in outcome.out) == ("if contiguous" in mistake)


def test_does_not_claim_hard_inputs_where_none_are_known(fib, registry):
    registry.write_definition(define_norm("double", DOUBLES, ("x", "weight", "y"), eps=None, dtype="float32"))
    Path("twice.py").write_text(DOUBLES)
    options = ("--definition", "double", "--device", "cpu", "--batch-sizes", "2,3", "--check")
    outcome = fib("try", "twice.py", *options)
    assert outcome.code == 0
    alone = "no hard inputs, no odd sizes, judged by the reference alone"
    assert outcome.lines == [
        "tokens=2  twice.py  PASSED  1 case judged",
        "tokens=3  twice.py  PASSED  1 case judged",
        "",
        f"twice.py PASSED as double (2 workloads, {alone}); max difference 0; not timed",
    ]
    assert "judged by the reference alone" in fib("try", "twice.py", *options, "--json").json["note"]


def test_workloads_with_the_same_axes_are_told_apart_by_their_scalars(fib, registry):
    registry.write_definition(SCALED)
    options = ("--definition", "scaled")
    for factor in (2, 3):
        assert fib("workload", *options, "--batch-sizes", "2", "--set", f"factor={factor}").code == 0
    Path("raises.py").write_text("def run(x, factor):\n    raise ValueError('boo')\n")
    outcome = fib("try", "raises.py", *options, "--device", "cpu", "--check")
    assert outcome.lines[:2] == [
        "batch=2, factor=2  raises.py  RUNTIME_ERROR",
        "batch=2, factor=3  raises.py  RUNTIME_ERROR",
    ]
    assert outcome.lines[3] == "batch=2,factor=2, batch=2,factor=3: RUNTIME_ERROR"
