"""The C++ Solutions at every instruction set that this machine has, on OpenMP's threads and on their own."""

import shutil
from math import prod

import pytest
import torch

from fib_rmsnorm.evaluation.judging.output_comparison import ordinals
from fib_rmsnorm.operators import find_operator
from support import kernel_calls
from support.judged_kernels import define

pytestmark = pytest.mark.skipif(not shutil.which("c++"), reason="needs a C++ compiler")
SHAPES = [
    (0, 4096),
    *((batch, hidden) for batch in (1, 2, 5) for hidden in (1, 7, 64, 127, 129, 4095, 4096)),
    (300, 4096),  # on several threads
    (300, 1000),  # held as float32, but for the last columns
    (1100, 4096),  # past the caches
    (1099, 4097),  # rows that start anywhere
    (5, 32768),
]
FEW_SHAPES = [(0, 128), (5, 129), (40, 1000), (70, 4096), (5, 8192), (1100, 4096)]
EPS = 1e-6
FLOAT32_EPS = 2.0**-23

FORMS = kernel_calls.list_forward("_cpp_simd_v1")
ULPS = {"rmsnorm_gemma": 4, "rmsnorm_silu_gate": 8}
"""In float32. Of the others 3: the results are rounded a few times, and rstd once before."""


def load(name="rmsnorm", baseline=True):
    return kernel_calls.load_cpp(f"{name}_cpp_simd_v1", baseline=baseline)


def bound_error(name: str, wide: dict[str, torch.Tensor], exact: torch.Tensor) -> torch.Tensor:
    """What float32 may lose where terms cancel, of the mean and of the bias: less than the judge allows."""
    bound = torch.zeros_like(wide["x"])
    if "bias" in wide:
        bound += 4 * FLOAT32_EPS * ((exact - wide["bias"]).abs() + wide["bias"].abs())
    if name.startswith("layernorm"):
        rstd = torch.rsqrt((wide["x"] - wide["x"].mean(-1, keepdim=True)).square().mean(-1, keepdim=True) + EPS)
        lost = wide["x"].abs() + wide["x"].abs().mean(-1, keepdim=True)
        bound += 8 * FLOAT32_EPS * lost * rstd * wide["weight"].abs()
    return bound


def check(run, shape, dtype, scale, offset, name="rmsnorm", weight=""):
    batch, hidden = shape
    call = kernel_calls.NormCall(
        define(f"{name}_d{hidden}{kernel_calls.SUFFIXES[dtype]}{weight}"), batch, offset=offset, device="cpu"
    )
    for part, factor in {"x": scale, "residual": scale, "gate": 4}.items():
        if part in call.inputs:
            call.inputs[part].mul_(factor)
    x = call.inputs["x"]
    x[1:2] = 0
    x[2:3, :1] = 60000
    x[3:4] += 1000 * min(scale, 1)  # a mean far above the deviations
    call.run(run)
    call.check_room()
    out = call.outputs["out"]
    if batch:
        wide = {part: each.double() if isinstance(each, torch.Tensor) else each for part, each in call.inputs.items()}
        exact = call.operator.compute_exact(wide, dict.fromkeys(call.outputs, torch.float64))["out"].values
        apart = (ordinals(out) - ordinals(exact.to(dtype))).abs()
        off = (out.double() - exact).abs()
        wrong = (apart > (ULPS.get(name, 3) if dtype == torch.float32 else 1)) & ~(
            off <= bound_error(name, wide, exact)
        )
        assert not wrong.any(), (name, shape, dtype, scale, offset, apart.max())
    again = {part: torch.empty_like(each) for part, each in call.outputs.items()}
    instead = again
    if "residual" in call.inputs:
        assert torch.equal(call.outputs["new_residual"], x + call.inputs["residual"])
        again["new_residual"] = call.inputs["residual"].clone()
        instead = {**again, "residual": again["new_residual"]}  # in place
    call.run(run, **instead)
    for part, each in again.items():
        assert torch.equal(each.view(torch.uint8), call.outputs[part].reshape_as(each).view(torch.uint8))


def check_form(name, baseline=True):
    run = load(name, baseline)
    if name == "rmsnorm_llama":
        torch.manual_seed(0)
        check_llama(run)
        return
    is_whole = name == "rmsnorm"  # of whose rows the others are made
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        for shape in SHAPES if is_whole else FEW_SHAPES:
            is_large = prod(shape) > 1 << 20
            if is_large and not is_whole and dtype != torch.float16:
                continue  # what lies past the caches is written in another way, whatever the dtype
            weights = (
                ("", "_weight_fp32") if name in kernel_calls.WITH_FLOAT_WEIGHT and dtype != torch.float32 else ("",)
            )
            for scale in (1, 300, 1e-4, 1e-7) if is_whole and not is_large else (1,):
                for offset in (0, 1, 3) if is_whole or not is_large else (0,):
                    for weight in weights:
                        check(run, shape, dtype, scale, offset, name, weight)
    if name == "rmsnorm_silu_gate":
        check_silu(run)


def check_llama(run):
    """To the bit where the first rounding has no doubt: in rows whose rstd is a power of two."""
    for dtype in (torch.float16, torch.bfloat16):
        for hidden in (129, 4096):
            x = (torch.randint(0, 2, (5, hidden)) * 2 - 1).to(dtype) * 2  # mean square 4; eps is lost in it
            weight = torch.randn(hidden).to(dtype)
            out = torch.empty_like(x)
            run(x, weight, 0.0, out)
            assert torch.equal(out, weight * (x / 2))
            x = torch.randn(5, hidden).to(dtype)
            run(x, weight, EPS, out)
            exact = find_operator("rmsnorm_no_weight").compute_exact({"x": x.double(), "eps": EPS}, {"out": dtype})
            rounded = exact["out"].values
            apart = (ordinals(out) - ordinals(weight * rounded)).abs()
            assert (apart > 0).float().mean() < 0.01
            assert apart.max() <= 2


def check_silu(run):
    """Of rows of ones the output is silu(gate), subnormals, infinities and NaN too, wherever it stands in the row."""
    ends = torch.tensor([0.0, -0.0, 100, -100, -89, -103.9, -1e30, 1e30, float("inf"), float("-inf"), float("nan")])
    gate = torch.cat([torch.linspace(-110, 110, 40960), torch.linspace(-2, 2, 4095), ends]).view(1, -1)
    x, out = torch.ones_like(gate), torch.empty_like(gate)
    run(x, gate, torch.ones(gate.shape[1]), 0.0, out)
    exact = (gate.double() / (1 + torch.exp(-gate.double()))).float()
    known = ~exact.isnan()
    assert torch.equal(out.isnan(), ~known)
    assert (ordinals(out[known]) - ordinals(exact[known])).abs().max() <= 4
    reverse = torch.empty_like(out)
    run(x, gate.flip(1), torch.ones(gate.shape[1]), 0.0, reverse)
    assert (ordinals(reverse.flip(1)[known]) - ordinals(exact[known])).abs().max() <= 4


# The exponential is written for each set. Two outputs, a mean with a bias and a rounding in between use what RMSNorm's
# rows are made of, which are checked at every set too; the other forms are parts of these.
AT_EVERY_SET = [
    "rmsnorm",
    "rmsnorm_silu_gate",
    *(pytest.param(name, marks=pytest.mark.fuzz) for name in ("fused_add_rmsnorm", "layernorm_bias", "rmsnorm_llama")),
]


@pytest.mark.parametrize("name", [name for name in FORMS if name not in AT_EVERY_SET])
@pytest.mark.compile
def test_each_form_is_right_on_this_processor(name):
    check_form(name, baseline=False)


@pytest.mark.parametrize("name", AT_EVERY_SET)
@pytest.mark.compile
@pytest.mark.timeout(900)  # a build of all sets takes half a minute of a core that is free
def test_forms_are_right_at_every_instruction_set(name):
    """One test for all sets, which are in one build."""
    kernel_calls.assert_right_at_every_set("test_cpp_simd", f"check_form({name!r})")


@pytest.mark.compile
@pytest.mark.parametrize(
    ("weight", "said"),
    [
        (torch.ones(128), "weight: expected dtype float16 as x, got float32"),
        (torch.ones(128).bfloat16(), "weight: expected dtype float16 as x, got bfloat16"),
        (torch.ones(64).half(), "weight: expected size 128 on axis 0, got 64"),
    ],
)
def test_arguments_that_the_form_does_not_take_are_named(weight, said):
    x = torch.ones(2, 128).half()
    with pytest.raises((TypeError, ValueError), match=said):
        load("rmsnorm_llama", baseline=False)(x, weight, 1e-6, torch.empty_like(x))


FORKED = """
import os, torch, test_cpp_simd
run = test_cpp_simd.load()
test_cpp_simd.check(run, (300, 4096), torch.float16, 1, 0)
child = os.fork()
if child == 0:
    torch.set_num_threads(1)  # OpenMP's threads were not forked
    test_cpp_simd.check(run, (300, 4096), torch.float16, 1, 0)
    os._exit(0)
print(os.waitpid(child, 0)[1])
"""


@pytest.mark.compile
def test_a_forked_child_does_not_wait_for_threads_that_it_lacks():
    assert kernel_calls.run_script(FORKED) == "0"
