"""What `new` writes for each operator is right: in C++ and in Triton, which is interpreted; and compiles in CUDA."""

from __future__ import annotations

import pytest

from fib_rmsnorm.building.native import build_native, find_cuda_home
from fib_rmsnorm.operators import find_operator
from support.judged_kernels import draft_starting_kernel, find_wrong, find_wrong_interpreted

DTYPES = ("float16", "bfloat16", "float32")
MIXED = ("rmsnorm", "rmsnorm_bias", "rmsnorm_relu", "rmsnorm_silu_gate")
"""Their weight may be float32 beside 16 bits."""
BACKWARD = ("rmsnorm_backward", "layernorm_backward", "fused_add_rmsnorm_backward")
TRITON = (*MIXED, "rmsnorm_no_weight", "fused_add_rmsnorm", "layernorm", "layernorm_bias", *BACKWARD)

pytestmark = pytest.mark.compile


def list_definitions(operator):
    """Definitions of all dtypes, and of a weight in float32."""
    known = find_operator(operator)
    mixed = [known.define(384, "bf16", "float32")] if operator in MIXED else []
    return [*(known.define(384, dtype) for dtype in DTYPES), *mixed]


@pytest.mark.parametrize(
    ("operator", "count"),  # a build takes seconds
    [
        ("rmsnorm_bias", 4),
        ("rmsnorm_silu_gate", 4),
        ("rmsnorm_fp8_per_row", 3),
        ("rmsnorm_fp8_per_row_e5m2", 3),
        ("fused_add_rmsnorm", 1),
        ("fused_add_rmsnorm_fp8", 3),
        ("fused_add_rmsnorm_fp8_per_row", 3),
        ("layernorm", 1),
        ("layernorm_bias", 1),
        *((each, 1) for each in BACKWARD),
    ],
)
def test_in_cpp(operator, count, tmp_path):
    assert find_wrong("cpp", list_definitions(operator)[:count], tmp_path) == []


def test_in_triton():
    assert find_wrong_interpreted("triton", (each for operator in TRITON for each in list_definitions(operator))) == []


def test_in_python(tmp_path):
    for operator in ("fused_add_rmsnorm", "layernorm_bias", *BACKWARD):
        assert find_wrong("python", list_definitions(operator), tmp_path) == []


@pytest.mark.skipif(find_cuda_home() is None, reason="needs nvcc")
@pytest.mark.parametrize("operator", ["rmsnorm_silu_gate", "layernorm", "layernorm_bias", *BACKWARD])
def test_in_cuda_it_compiles(operator, tmp_path):
    solution = draft_starting_kernel(find_operator(operator).define(384), "cuda", tmp_path)
    assert build_native(solution, tmp_path / "cache", "9.0").exists()
