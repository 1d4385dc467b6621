"""The C++ Solutions of backward passes, at every instruction set that this machine has and on any number of threads."""

from __future__ import annotations

import shutil

import pytest
import torch

from support.kernel_calls import (
    DTYPES,
    MISFITS,
    SETS,
    assert_right_gradients,
    call_backward,
    load_cpp,
    make_backward_inputs,
    run_script,
)

pytestmark = [pytest.mark.compile, pytest.mark.skipif(not shutil.which("c++"), reason="needs a C++ compiler")]
SHAPES = [(0, 128), (1, 7), (5, 129), (9, 64), (70, 1000)]  # of the last, blocks go to several threads
LARGE_SHAPES = [
    (3, 33000),  # row by row
    (521, 4096),  # past the caches
]
"""Of float32."""


def load(operator, baseline=False):
    return load_cpp(f"{operator}_cpp_simd_v1", baseline=baseline)


def check_gradients(operator, baseline):
    torch.manual_seed(0)
    run = load(operator, baseline)
    for dtype in DTYPES:
        for shape in [*SHAPES, *LARGE_SHAPES] if dtype == torch.float32 else SHAPES:
            for weight_dtype in {dtype, torch.float32}:
                for offset in (0,) if shape in LARGE_SHAPES else (0, 1):
                    inputs = make_backward_inputs(operator, *shape, dtype, offset, weight_dtype=weight_dtype)
                    found = []
                    for threads in (2, 1):
                        torch.set_num_threads(threads)
                        found.append(call_backward(run, operator, inputs))
                    assert_right_gradients(operator, inputs, found[0])
                    assert all(map(torch.equal, *found)), (shape, dtype, "on one thread")


# That of RMSNorm is a part of the others, and what LayerNorm's adds is made of the same vectors.
@pytest.mark.parametrize(
    "operator", ["fused_add_rmsnorm_backward", pytest.param("layernorm_backward", marks=pytest.mark.fuzz)]
)
@pytest.mark.timeout(900)  # a build of all sets takes half a minute of a core that is free
def test_gradients_are_right_at_every_instruction_set(operator):
    script = f"import test_cpp_backward as t; t.check_gradients({operator!r}, baseline=True); print('right')"
    refusal = run_script(script, FIB_RMSNORM_ISA="sse9")
    assert "portable" in refusal
    for isa in (isa for isa in SETS if isa in refusal):
        assert run_script(script, FIB_RMSNORM_ISA=isa) == "right", isa


@pytest.mark.parametrize("operator", ["rmsnorm_backward", "layernorm_backward"])
def test_gradients_are_right_on_this_processor(operator):
    check_gradients(operator, baseline=False)


@pytest.mark.parametrize(
    ("part", "wrong", "said"),
    [*MISFITS, ("weight", torch.Tensor.bfloat16, "weight: expected dtype float16 as x, got bfloat16")],
)
def test_what_does_not_fit_is_named(part, wrong, said):
    inputs = make_backward_inputs("rmsnorm_backward", 4, 256)
    with pytest.raises((ValueError, TypeError), match=said):
        call_backward(load("rmsnorm_backward"), "rmsnorm_backward", {**inputs, part: wrong(inputs[part])})
