"""The C++ Solutions at every instruction set that this machine has, on OpenMP's threads and on their own."""

from __future__ import annotations

import shutil
from typing import Any

import pytest
import torch

from fib_rmsnorm.operators import find_operator
from support.kernel_calls import DTYPES, SETS, list_shipped, load_cpp, place, run_script

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

FORMS = [name for name in list_shipped("cpp_simd") if not name.endswith("_backward")]
ULPS = {"rmsnorm_gemma": 4, "rmsnorm_silu_gate": 8}
"""In float32. Of the others 3: the results are rounded a few times, and rstd once before."""
WITH_FLOAT_WEIGHT = ("rmsnorm", "rmsnorm_bias", "rmsnorm_relu", "rmsnorm_silu_gate")
BY_ROW = ("x", "gate", "residual")


def load(name: str = "rmsnorm", baseline: bool = True):
    return load_cpp(f"{name}_cpp_simd_v1", baseline=baseline)


def ordinals(values: torch.Tensor) -> torch.Tensor:
    """Integers that are as far apart as floats are in units in the last place."""
    bits = values.view(torch.int32 if values.element_size() == 4 else torch.int16).long()
    return torch.where(bits < 0, torch.iinfo(torch.int64).min // 2 ** (64 - 8 * values.element_size()) - bits, bits)


def check(run, shape, dtype, scale, offset, name="rmsnorm", weight_dtype=None):
    batch, hidden = shape
    operator: Any = find_operator(name)
    tensors = {}
    for part in operator.arguments[:-1]:  # the last is eps
        size, of = (shape, dtype) if part in BY_ROW else ((hidden,), weight_dtype or dtype)
        factor = {"x": scale, "residual": scale, "gate": 4}.get(part, 1)
        tensors[part] = place((torch.randn(size) * factor).to(of), offset)[1]
    x = tensors["x"]
    x[1:2] = 0
    x[2:3, :1] = 60000
    x[3:4] += 1000 * min(scale, 1)  # a mean far above the deviations
    placed = [place(torch.zeros(shape, dtype=dtype), offset) for _ in operator.outputs]
    outputs = [view for _, view in placed]
    run(*tensors.values(), EPS, *outputs)
    if batch:
        wide = {part: tensor.double() for part, tensor in tensors.items()}
        dtypes = dict.fromkeys(operator.outputs, torch.float64)
        right = operator.compute_exact({**wide, "eps": EPS}, dtypes)["out"]
        exact, bound = right.values, 0 if right.bound is None else right.bound
        apart = (ordinals(outputs[0]) - ordinals(exact.to(dtype))).abs()
        off = (outputs[0].double() - exact).abs()
        wrong = (apart > (ULPS.get(name, 3) if dtype == torch.float32 else 1)) & ~(off <= bound)
        assert not wrong.any(), (shape, dtype, scale, offset, apart.max())
    if "residual" in tensors:
        assert torch.equal(outputs[1], x + tensors["residual"])
        own = {**tensors, "residual": tensors["residual"].clone()}
        in_place = [torch.empty_like(x), own["residual"]]
        run(*own.values(), EPS, *in_place)
        assert torch.equal(in_place[0], outputs[0])
        assert torch.equal(in_place[1], outputs[1])
    assert all((memory[:offset] == 7).all() and (memory[-64:] == 7).all() for memory, _ in placed)
    again = [torch.empty_like(each) for each in outputs]
    run(*tensors.values(), EPS, *again)
    assert all(
        torch.equal(a.view(torch.uint8), b.reshape_as(a).view(torch.uint8)) for a, b in zip(again, outputs, strict=True)
    )


def check_all():
    torch.manual_seed(0)
    run = load()
    for dtype in DTYPES:
        for batch, hidden in SHAPES:
            large = batch * hidden > 1 << 17
            for scale in (1,) if large else (1, 300, 1e-4, 1e-7):
                for offset in (0, 1) if large else (0, 1, 3):
                    check(run, (batch, hidden), dtype, scale, offset)


def check_form(name, baseline=True):
    torch.manual_seed(0)
    run = load(name, baseline)
    if name == "rmsnorm_llama":
        check_llama(run)
        return
    for dtype in DTYPES:
        for shape in FEW_SHAPES:
            if shape[0] > 1000 and dtype != torch.float16:
                continue  # what lies past the caches is written in another way, whatever the dtype
            for offset in (0,) if shape[0] > 1000 else (0, 1):
                check(run, shape, dtype, 1, offset, name)
                if name in WITH_FLOAT_WEIGHT and shape[0] < 1000:
                    check(run, shape, dtype, 1, offset, name, torch.float32)
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


@pytest.fixture(scope="module")
def refusal() -> str:
    """What is said of an instruction set that there is not."""
    return run_script("import test_cpp_simd; test_cpp_simd.check_all()", FIB_RMSNORM_ISA="sse9")


# The exponential is written for each set. Two outputs, a mean with a bias and a rounding in between use what RMSNorm's
# rows are made of, which are checked at every set too; the other forms are parts of these.
AT_EVERY_SET = [
    *("check_all()", "check_form('rmsnorm_silu_gate')"),
    *(
        pytest.param(f"check_form({name!r})", marks=pytest.mark.fuzz)
        for name in ("fused_add_rmsnorm", "layernorm_bias", "rmsnorm_llama")
    ),
]


@pytest.mark.parametrize("name", [name for name in FORMS if name not in ("rmsnorm", "rmsnorm_silu_gate")])
@pytest.mark.compile
def test_each_form_is_right_on_this_processor(name):
    check_form(name, baseline=False)


@pytest.mark.parametrize("checks", AT_EVERY_SET)
@pytest.mark.compile
@pytest.mark.timeout(900)  # a build of all sets takes half a minute of a core that is free
def test_it_is_right_at_every_instruction_set(refusal, checks):
    """One test for all sets, which are in one build."""
    script = f"import test_cpp_simd; test_cpp_simd.{checks}; print('right')"
    for isa in (isa for isa in SETS if isa in refusal):
        assert run_script(script, FIB_RMSNORM_ISA=isa) == "right", isa


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
    assert run_script(FORKED) == "0"


@pytest.mark.compile
def test_an_unknown_instruction_set_is_named(refusal):
    assert "FIB_RMSNORM_ISA is 'sse9', expected one of: " in refusal and "portable" in refusal
