"""The CUDA Solutions of the norm family: one row kernel in many forms, and a launch that depends on who calls it."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import pytest
import torch

from fib_rmsnorm.building import build_entry
from fib_rmsnorm.building.cache import solution_cache
from fib_rmsnorm.building.native import find_cuda_home
from fib_rmsnorm.evaluation.judging.output_comparison import OutputPair, compare
from fib_rmsnorm.operators.operator import list_operators
from support.kernel_calls import DTYPES, list_shipped, place, shipped_solutions
from support.paths import REPOSITORY

CUDA = "rmsnorm_cuda_vec16_v1"
FORWARD = [f"{name}_cuda_vec16_v1" for name in list_shipped("cuda_vec16") if not name.endswith("_backward")]
EPS, SCALE = 1e-6, 0.05
SHAPES = [
    (0, 4096),
    *((3, hidden) for hidden in (1024, 2048, 4096, 8192, 16384, 32768)),  # rows of exactly some vectors a thread
    *((1100, hidden) for hidden in (2048, 4096, 8192)),  # with the fewer threads of many rows
    *((67, hidden) for hidden in (8, 128, 256, 512)),  # several rows a block, and a last block that is not full
    *((5, hidden) for hidden in (1000, 4104, 20000)),  # threads of the last vectors hold none
    (3, 72000),  # too long for registers
    *((5, hidden) for hidden in (1, 7, 4095, 4099)),  # not made of vectors
]


@cache
def build_for_cuda(name=CUDA):
    solution = shipped_solutions()[name]
    return build_entry(solution, "cuda:0", solution_cache(solution))


@cache
def operator_of(name):
    """The operator whose Definition a Solution is for, and that Definition."""
    wanted = shipped_solutions()[name].definition
    return next((each, found) for each in list_operators() if (found := each.define_by_name(wanted)))


class Call:
    """Inputs of a form, each `offset` elements into its memory, its outputs, and what is right."""

    def __init__(self, name, batch, hidden, dtype, *, weight=None, float8=None, offset=0, hard=None):
        self.operator, self.definition = operator_of(name)
        self.row_dtype, self.weight_dtype, self.float8, self.offset = dtype, weight or dtype, float8, offset
        sizes = {"batch": batch, "hidden": hidden}
        made = {part: self._fill(part, spec, sizes) for part, spec in self.definition.inputs.items()}
        if hard is not None and batch:
            made = {**made, **self.operator.make_hard_case(made, {}, hard, "seed").inputs}
        self.placed = {
            part: place(value, offset)[1] if hasattr(value, "dim") else value for part, value in made.items()
        }
        specs = self.definition.outputs.items()
        blank = {part: torch.zeros([sizes[axis] for axis in spec.shape], device="cuda") for part, spec in specs}
        self.outputs = {part: place(each.to(self._dtype(part)), offset) for part, each in blank.items()}

    def _dtype(self, part):
        spec = {**self.definition.inputs, **self.definition.outputs}[part]
        if spec.dtype.value.startswith("float8"):
            return self.float8 or torch.float8_e4m3fn
        return torch.float32 if part == "out_scale" else self.weight_dtype if len(spec.shape) == 1 else self.row_dtype

    def _fill(self, part, spec, sizes):
        if spec.shape is None:
            return SCALE if part == "out_scale" else EPS
        return torch.randn([sizes[axis] for axis in spec.shape], device="cuda").to(self._dtype(part))

    def run(self, entry, **instead):
        """Call the kernel, with other tensors instead of these."""
        outputs = {part: view for part, (_, view) in self.outputs.items()}
        arguments = {**self.placed, **outputs, **instead}
        entry(*arguments.values())
        torch.cuda.synchronize()

    def expect(self):
        dtypes = {part: self._dtype(part) for part in self.definition.outputs}
        operator = self.operator
        if self.float8 is torch.float8_e5m2:
            (operator,) = [each for each in list_operators() if each.name == f"{operator.name}_e5m2"]
        return operator.compute_exact(self.placed, dtypes)

    def check(self, outputs, exact, about):
        for part, right in exact.items():
            actual, values = outputs[part], right.values
            if (other := right.alternative) is not None:
                nearer = (actual.double() - other.double()).abs() < (actual.double() - values.double()).abs()
                values = torch.where(nearer, other, values)
            tolerance = 0.0 if right.is_strict else None
            found = compare(OutputPair(actual, values, right.bound), tolerance, tolerance)
            assert found.mismatched == 0, (about, part, found.worst)

    def check_room(self, about):
        """Nothing was written beside the outputs."""
        for part, (memory, view) in self.outputs.items():
            rest = torch.cat([memory[: self.offset].float(), memory[self.offset + view.numel() :].float()])
            assert (rest == 7).all(), (about, part)


def check_form(name, batch, hidden, dtype, **options):
    call = Call(name, batch, hidden, dtype, **options)
    exact = call.expect() if batch else {}
    call.run(build_for_cuda(name))
    about = (name, batch, hidden, dtype, options)
    call.check({part: view for part, (_, view) in call.outputs.items()}, exact, about)
    call.check_room(about)


@pytest.mark.gpu
@pytest.mark.parametrize("name", FORWARD)
def test_every_form_is_right_at_every_shape_and_dtype(name):
    torch.manual_seed(0)
    for dtype in DTYPES:
        for batch, hidden in SHAPES:
            check_form(name, batch, hidden, dtype)
        for hard in (0, 1):
            check_form(name, 67, 4096, dtype, hard=hard)
            check_form(name, 67, 1000, dtype, hard=hard)
        for batch, hidden in ((3, 4096), (5, 1000), (2, 4099)):  # memory that vectors cannot address
            check_form(name, batch, hidden, dtype, offset=1)


@pytest.mark.gpu
@pytest.mark.parametrize("name", FORWARD)
def test_a_weight_in_float32(name):
    operator, _ = operator_of(name)
    if "weight" not in {option.name for option in operator.options}:
        if any(len(spec.shape or ()) == 1 for spec in operator_of(name)[1].inputs.values()):
            with pytest.raises(TypeError, match="weight: expected dtype float16 as x, got float32"):
                check_form(name, 3, 4096, torch.float16, weight=torch.float32)
        return
    for dtype in DTYPES[:2]:
        for batch, hidden in SHAPES:
            check_form(name, batch, hidden, dtype, weight=torch.float32)
        check_form(name, 67, 4096, dtype, weight=torch.float32, hard=0)
        check_form(name, 3, 4096, dtype, weight=torch.float32, offset=1)


@pytest.mark.gpu
@pytest.mark.parametrize("name", [name for name in FORWARD if "fp8" in name])
def test_both_formats_of_float8(name):
    if f"{operator_of(name)[0].name}_e5m2" not in {each.name for each in list_operators()}:
        pytest.skip("there is no such operator")
    for dtype in DTYPES:
        for batch, hidden in SHAPES:
            check_form(name, batch, hidden, dtype, float8=torch.float8_e5m2)


@pytest.mark.gpu
def test_a_scale_that_is_a_tensor():
    entry = build_for_cuda("rmsnorm_fp8_cuda_vec16_v1")
    for hidden in (4096, 1000, 4099):
        call = Call("rmsnorm_fp8_cuda_vec16_v1", 5, hidden, torch.float16)
        call.run(entry)
        (right,) = [view.clone() for _, view in call.outputs.values()]
        for shape in ((), (1,)):
            call.outputs["out"][1].zero_()
            call.run(entry, out_scale=torch.full(shape, SCALE, device="cuda"))
            assert torch.equal(call.outputs["out"][1].view(torch.uint8), right.view(torch.uint8))


@pytest.mark.gpu
@pytest.mark.parametrize("name", [name for name in FORWARD if "fp8" not in name])
def test_outputs_may_lie_where_inputs_do(name):
    for batch, hidden in ((5, 4096), (67, 512), (5, 1000), (3, 72000), (5, 4099)):
        call = Call(name, batch, hidden, torch.float16)
        exact = call.expect()
        pairs = {"out": "x", "new_residual": "residual"}
        instead = {output: call.placed[pairs[output]] for output in call.outputs}
        call.run(build_for_cuda(name), **instead)
        call.check(instead, exact, (name, batch, hidden))


@pytest.mark.skipif(find_cuda_home() is None, reason="needs nvcc")
@pytest.mark.compile
@pytest.mark.parametrize(
    "operator", ["fused_add_rmsnorm", "layernorm_bias", "rmsnorm_silu_gate", "rmsnorm_fp8_per_row"]
)
def test_forms_compile_for_a_gpu_that_is_not_here(fib, operator):
    """Nothing is spilled at the sizes that matter, and all is read and written in 16 bytes, or 8 of float8."""
    name = f"{operator}_cuda_vec16_v1"
    outcome = fib("explain", name, "--root", REPOSITORY, "--arch", "sm_90", "--batch-sizes", "8,4096", "--json")
    assert outcome.code == 0, outcome.err
    record = json.loads(outcome.out)
    for launch in record["launches"]:
        kernel = record["kernels"][launch["kernel_number"]]
        assert kernel["kernel"].startswith("norm_row<") and "__half2" in kernel["kernel"]
        assert kernel["spill_bytes"] == 0
        stored = {access["bytes"] for access in kernel["code"]["accesses"]}
        assert 16 in stored and stored <= ({16, 8, 4} if "fp8" in name else {16})


def assert_normalized(out, x, weight):
    torch.testing.assert_close(out, torch.nn.functional.rms_norm(x, (4096,), weight, EPS), rtol=2e-3, atol=1e-6)


@pytest.mark.gpu
@pytest.mark.parametrize("warm", [False, True])
def test_a_new_thread_whose_first_use_of_the_gpu_is_this_kernel(warm):
    """The driver, which launches it, gives a thread no context; the runtime does."""
    entry = build_for_cuda()
    x, weight = torch.randn(3, 4096, device="cuda:0").half(), torch.randn(4096, device="cuda:0").half()
    out = torch.full_like(x, float("nan"))
    torch.cuda.synchronize()
    if warm:
        entry(x, weight, EPS, out.clone())
    with ThreadPoolExecutor(1) as pool:
        pool.submit(entry, x, weight, EPS, out).result()
    torch.cuda.synchronize()
    assert_normalized(out, x, weight)


@pytest.mark.gpu
def test_devices_in_turn():
    """The driver's handle of a kernel is good on one device only."""
    devices = [f"cuda:{number}" for number in range(torch.cuda.device_count())]
    entry = build_for_cuda()
    for device in (*devices, *devices):
        x, weight = torch.randn(3, 4096, device=device).half(), torch.randn(4096, device=device).half()
        out = torch.full_like(x, float("nan"))
        entry(x, weight, EPS, out)
        torch.cuda.synchronize(device)
        assert_normalized(out, x, weight)
        assert torch.cuda.current_device() == 0
