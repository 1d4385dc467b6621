"""The CUDA Solutions of the norm family: one row kernel in many forms, and a launch that depends on who calls it."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from fib_rmsnorm.building.native import find_cuda_home
from fib_rmsnorm.operators import define_by_name
from support.judged_kernels import define
from support.kernel_calls import SUFFIXES, WITH_FLOAT_WEIGHT, NormCall, list_forward, load_cuda
from support.paths import REPOSITORY

END = "_cuda_vec16_v1"
FORWARD = list_forward(END)
E5M2 = [f"{each}_e5m2" for each in FORWARD if define_by_name(f"{each}_e5m2_d4096")]
SHAPES = [
    (0, 4096),
    *((3, hidden) for hidden in (1024, 2048, 4096, 8192, 16384, 32768)),  # rows of exactly some vectors a thread
    *((1100, hidden) for hidden in (2048, 4096, 8192)),  # with the fewer threads of many rows
    *((67, hidden) for hidden in (8, 128, 256, 512)),  # several rows a block, and a last block that is not full
    *((5, hidden) for hidden in (1000, 4104, 20000)),  # threads of the last vectors hold none
    (3, 72000),  # too long for registers
    *((5, hidden) for hidden in (1, 7, 4095, 4099)),  # not made of vectors
]


def build_for_cuda(operator="rmsnorm"):
    return load_cuda(operator.removesuffix("_e5m2") + END)


@pytest.mark.gpu
@pytest.mark.parametrize("suffix", [*SUFFIXES.values(), "_weight_fp32", "_bf16_weight_fp32"])
@pytest.mark.parametrize("operator", FORWARD + E5M2)
def test_every_form_is_right_at_every_shape_and_dtype(operator, suffix):
    entry = build_for_cuda(operator)

    def check(batch, hidden, **options):
        call = NormCall(define(f"{operator}_d{hidden}{suffix}"), batch, **options)
        exact = call.expect() if batch else {}
        call.run(entry)
        call.check(call.outputs, exact)

    if "weight" in suffix and operator.removesuffix("_e5m2") not in WITH_FLOAT_WEIGHT:
        call = NormCall(define(f"{operator}_d4096"), 3)
        if "weight" in call.inputs:
            with pytest.raises(TypeError, match="weight: expected dtype float16 as x, got float32"):
                call.run(entry, weight=call.inputs["weight"].float())
        return
    for batch, hidden in SHAPES:
        check(batch, hidden)
    for hard in (0, 1):
        check(67, 4096, hard=hard)
        check(67, 1000, hard=hard)
    for batch, hidden in ((3, 4096), (5, 1000), (2, 4099)):  # memory that vectors cannot address
        check(batch, hidden, offset=1)


@pytest.mark.gpu
def test_a_scale_that_is_a_tensor():
    entry = build_for_cuda("rmsnorm_fp8")
    for hidden in (4096, 1000, 4099):
        call = NormCall(define(f"rmsnorm_fp8_d{hidden}"), 5)
        call.run(entry)
        (right,) = (each.clone() for each in call.outputs.values())
        for shape in ((), (1,)):
            call.outputs["out"].zero_()
            call.run(entry, out_scale=torch.full(shape, call.inputs["out_scale"], device="cuda"))
            assert torch.equal(call.outputs["out"].view(torch.uint8), right.view(torch.uint8))


@pytest.mark.gpu
@pytest.mark.parametrize("operator", [operator for operator in FORWARD if "fp8" not in operator])
def test_outputs_may_lie_where_inputs_do(operator):
    for batch, hidden in ((5, 4096), (67, 512), (5, 1000), (3, 72000), (5, 4099)):
        call = NormCall(define(f"{operator}_d{hidden}"), batch)
        exact = call.expect()
        pairs = {"out": "x", "new_residual": "residual"}
        instead = {output: call.inputs[pairs[output]] for output in call.outputs}
        call.run(build_for_cuda(operator), **instead)
        call.check(instead, exact)


@pytest.mark.skipif(find_cuda_home() is None, reason="needs nvcc")
@pytest.mark.compile
@pytest.mark.parametrize(
    "operator", ["fused_add_rmsnorm", "layernorm_bias", "rmsnorm_silu_gate", "rmsnorm_fp8_per_row"]
)
def test_forms_compile_for_a_gpu_that_is_not_here(fib, operator):
    """Nothing is spilled at the sizes that matter, and all is read and written in 16 bytes, or 8 of float8."""
    name = f"{operator}{END}"
    options = ("--root", REPOSITORY, "--arch", "sm_90", "--batch-sizes", "8,4096", "--json")
    record = fib("explain", name, *options).answer
    assert record["launches"]
    for launch in record["launches"]:
        kernel = record["kernels"][launch["kernel_number"]]
        assert kernel["kernel"].startswith("norm_row<") and "__half2" in kernel["kernel"]
        assert kernel["spill_bytes"] == 0
        stored = {access["bytes"] for access in kernel["code"]["accesses"]}
        assert 16 in stored and stored <= ({16, 8, 4} if "fp8" in name else {16})


@pytest.mark.gpu
@pytest.mark.parametrize("warm", [False, True])
def test_a_new_thread_whose_first_use_of_the_gpu_is_this_kernel(warm):
    """The driver, which launches it, gives a thread no context; the runtime does."""
    entry, call = build_for_cuda(), NormCall(define("rmsnorm_d4096"), 3)
    exact = call.expect()
    torch.cuda.synchronize()
    if warm:
        call.run(entry, out=torch.empty_like(call.outputs["out"]))
    with ThreadPoolExecutor(1) as pool:
        pool.submit(call.run, entry).result()
    call.check(call.outputs, exact)


@pytest.mark.gpu
def test_devices_in_turn():
    """The driver's handle of a kernel is good on one device only."""
    devices = [f"cuda:{number}" for number in range(torch.cuda.device_count())]
    for device in (*devices, *devices):
        call = NormCall(define("rmsnorm_d4096"), 3, device=device)
        call.run(build_for_cuda())
        call.check(call.outputs, call.expect())
        assert torch.cuda.current_device() == 0
