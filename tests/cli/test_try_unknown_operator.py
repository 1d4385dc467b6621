"""`try` of kernels whose Definition is of no known operator."""

from __future__ import annotations

from support.registries import DOUBLES, make_doubling_registry, make_scaling_registry


def test_does_not_claim_hard_inputs_where_none_are_known(fib, tmp_path):
    registry = make_doubling_registry(tmp_path / "registry")
    (tmp_path / "twice.py").write_text(DOUBLES)
    options = ("--definition", "double", "--device", "cpu", "--root", registry.root, "--batch-sizes", "2,3", "--check")
    outcome = fib("try", tmp_path / "twice.py", *options)
    assert outcome.code == 0
    alone = "no hard inputs, no odd sizes, judged by the reference alone"
    assert outcome.lines == [
        "batch=2   twice.py  PASSED  1 case judged",
        "batch=3   twice.py  PASSED  1 case judged",
        "",
        f"twice.py PASSED as double (2 workloads, {alone}); max difference 0; not timed",
    ]


def test_workloads_with_the_same_axes_are_told_apart_by_their_scalars(fib, tmp_path):
    registry = make_scaling_registry(tmp_path / "registry")
    options = ("--definition", "scaled", "--root", registry.root)
    for factor in (2, 3):
        assert fib("workload", *options, "--batch-sizes", "2", "--set", f"factor={factor}").code == 0
    (tmp_path / "raises.py").write_text("def run(x, factor):\n    raise ValueError('boo')\n")
    outcome = fib("try", tmp_path / "raises.py", *options, "--device", "cpu", "--check")
    assert outcome.lines[:2] == [
        "batch=2, factor=2  raises.py  RUNTIME_ERROR",
        "batch=2, factor=3  raises.py  RUNTIME_ERROR",
    ]
    assert outcome.lines[3] == "batch=2,factor=2, batch=2,factor=3: RUNTIME_ERROR"
