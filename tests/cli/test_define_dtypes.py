"""`define --dtype PART=DTYPE`: a right kernel passes, and one that rounds what is float32 does not."""

from __future__ import annotations

import pytest

SUM = """\
def run(x, residual, weight, eps):
    total = x.float() + residual.float()
    rstd = (total.square().mean(dim=-1, keepdim=True) + eps).rsqrt()
    return (total * rstd * weight).to(x.dtype), total.to(x.dtype)
"""
SHIFTED = """\
def run(x, weight, bias, eps):
    rstd = (x.float().square().mean(dim=-1, keepdim=True) + eps).rsqrt()
    return (x.float() * rstd * weight + bias).to(x.dtype)
"""


@pytest.mark.parametrize(
    ("operator", "dtypes", "name", "kernel", "wide"),
    [
        ("fused_add_rmsnorm", "bf16,weight=float32", "fused_add_rmsnorm_d128_bf16_weight_fp32", SUM, "weight"),
        ("rmsnorm_bias", "weight=float32,bias=float16", "rmsnorm_bias_d128_weight_fp32_bias_fp16", SHIFTED, "weight"),
        ("rmsnorm_bias", "bias=float32", "rmsnorm_bias_d128_bias_fp32", SHIFTED, "bias"),
    ],
)
def test_it_is_judged_by_what_float32_holds(fib, full_registry, operator, dtypes, name, kernel, wide):
    defined = fib("define", operator, "--hidden", "128", "--dtype", dtypes)
    assert f"Wrote definitions/norm/{name}.json" in defined.lines
    before, _, end = kernel.rpartition(f" {wide}")
    verdicts = {}
    for file, source in {"right.py": kernel, "wrong.py": f"{before} {wide}.to(x.dtype){end}"}.items():
        (full_registry.root / file).write_text(source)
        tried = fib("try", file, "--definition", name, "--device", "cpu", "--check", "--batch-sizes", "32")
        verdicts[file] = (tried.code, tried.lines[-1])
    assert verdicts["right.py"][0] == 0 and f"right.py PASSED as {name} " in verdicts["right.py"][1]
    assert (
        verdicts["wrong.py"][0] == 1
        and "1 of 1 workload: INCORRECT_NUMERICAL: workload: out: " in verdicts["wrong.py"][1]
    )
