"""The shipped Triton kernels: one family for all norms, right in the interpreter as far as that goes, and on a GPU."""

import pytest
import torch

from support.judged_kernels import SHIPPED, define, find_wrong, find_wrong_interpreted, load_shipped
from support.kernel_calls import WITH_FLOAT_WEIGHT, NormCall, list_forward

SHIPPED_FORWARD = list_forward("_triton_row_v1")
FORMS = [form for form in SHIPPED_FORWARD if "fp8" not in form]
TO_FLOAT8 = [form for form in SHIPPED_FORWARD if "fp8" in form]
# One sum, a mean with a bias, an exponential and two outputs: the other forms are parts of these.
KINDS = ("rmsnorm", "layernorm_bias", "rmsnorm_silu_gate", "fused_add_rmsnorm")
GRADIENTS = ("rmsnorm_backward", "layernorm_backward", "fused_add_rmsnorm_backward")


INTERPRETED = {
    "each form": [f"{form}_d384" for form in [*FORMS, *GRADIENTS]],
    "a row that fills its block": [
        f"{form}_d128"
        for form in ("rmsnorm_no_weight", "rmsnorm_silu_gate", "fused_add_rmsnorm_gemma", "fused_add_rmsnorm_backward")
    ],
    "a weight in float32": ["rmsnorm_bias_d384_bf16_weight_fp32"],
    "rows too long for a program": [*(f"{form}_d33024" for form in KINDS), "layernorm_backward_d16640"],
    "float32 and several vectors a thread": [f"{form}_d2560_fp32" for form in KINDS + GRADIENTS],
}


@pytest.mark.compile
@pytest.mark.parametrize("names", INTERPRETED.values(), ids=INTERPRETED.keys())
def test_right_in_the_interpreter(names):
    assert find_wrong_interpreted(SHIPPED, map(define, names)) == []


@pytest.mark.parametrize("name", ["rmsnorm_backward_d128", "layernorm_backward_d128"])
def test_gradients_of_no_rows_are_zero(tmp_path, name):
    _, *sums = NormCall(define(name), 0, device="cpu").call(load_shipped(name, tmp_path))
    assert all(torch.count_nonzero(each) == 0 for each in sums)


def list_gpu_names():
    for form in [*FORMS, *GRADIENTS]:
        yield from (f"{form}_d{shape}" for shape in ("128", "4096", "2560_bf16", "1152_fp32", "16384_fp32", "16384"))
    for form in TO_FLOAT8:
        yield from (f"{form}_d{shape}" for shape in ("128", "4096", "2560_bf16", "1152_fp32"))
    yield from (f"{form}_e5m2_d4096" for form in ("rmsnorm_fp8", "rmsnorm_fp8_per_row"))
    yield from (f"{form}_d{shape}_weight_fp32" for form in WITH_FLOAT_WEIGHT for shape in ("4096", "1152_bf16"))
    yield from ("layernorm_bias_d65536", "fused_add_rmsnorm_fp8_per_row_d65536", "layernorm_backward_d65536")


@pytest.mark.gpu
@pytest.mark.parametrize("name", list(list_gpu_names()))
def test_right_on_a_gpu(tmp_path, name):
    assert find_wrong(SHIPPED, [define(name)], tmp_path, "cuda") == []


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["fused_add_rmsnorm_d4096", "fused_add_rmsnorm_d65536"])
def test_the_new_residual_may_be_the_residual_itself(tmp_path, name):
    call = NormCall(define(name), 300)
    exact, residual = call.expect(), call.inputs["residual"]
    call.run(load_shipped(name, tmp_path), new_residual=residual)
    call.check({**call.outputs, "new_residual": residual}, exact)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["layernorm_bias_d4096", "layernorm_backward_d4096"])
def test_tensors_off_16_byte_boundaries_give_the_same(tmp_path, name):
    entry, call = load_shipped(name, tmp_path), NormCall(define(name), 100)
    outputs = call.call(entry)
    shifted = [torch.cat([each.flatten()[:1], each.flatten()])[1:].view(each.shape) for each in outputs]
    entry(*call.inputs.values(), *shifted)
    for one, other in zip(outputs, shifted, strict=True):
        torch.testing.assert_close(one.float(), other.float(), rtol=2e-3, atol=2e-3)
