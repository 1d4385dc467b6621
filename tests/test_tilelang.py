"""The TileLang kernels of the forward norms: right on a CPU, and what their programs for GPUs say."""

import importlib
import re
import tempfile

import pytest

from fib_rmsnorm.operators import define_by_name
from support.kernel_calls import list_forward, write_packages
from support.mistakes import is_entry_wrong

pytest.importorskip("tilelang")

ROWS = 12  # each hard row once, and more than one block has rows
HIDDEN = 1152  # no power of two: warps hold parts of different sizes


@pytest.fixture(scope="module")
def load_module(tmp_path_factory):
    """Import a module of a packed Solution. TileLang leaves its C++ among the temporary files."""
    folder = tmp_path_factory.mktemp("tilelang")
    write_packages(folder, "_tilelang_row_v1")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        patch.setattr(tempfile, "tempdir", str(folder))
        yield lambda operator, module: importlib.import_module(f"{operator}_tilelang_row_v1.{module}")


QUICK = [("fused_add_rmsnorm", ""), ("layernorm_bias", "_bf16"), ("rmsnorm", "_bf16_weight_fp32")]
MORE = [
    *((operator, "") for operator in list_forward("_tilelang_row_v1") if operator != "fused_add_rmsnorm"),
    *((operator, "_fp32") for operator in ("rmsnorm", "fused_add_rmsnorm", "layernorm", "layernorm_bias")),
    *((operator, "_bf16") for operator in ("fused_add_rmsnorm", "rmsnorm_no_weight")),
    ("rmsnorm_bias", "_bf16_weight_fp32"),
]


@pytest.mark.parametrize(
    ("operator", "suffix"), [*QUICK, *(pytest.param(*each, marks=pytest.mark.compile) for each in MORE)]
)
def test_it_is_right_on_a_cpu(load_module, tmp_path, operator, suffix):
    definition = define_by_name(f"{operator}_d{HIDDEN}{suffix}")
    run = load_module(operator, "kernel").run
    assert not is_entry_wrong(run, definition, ROWS, tmp_path, device="cpu", is_interpreted=False)


def lower(load_module, operator, hidden, dtype, launch):
    """The CUDA source of the program."""
    import tilelang

    form = load_module(operator, "kernel").FORM
    program = load_module(operator, "norm_gpu").norm(
        form, hidden, dtype, dtype, load_module(operator, "row_plan").Launch(*launch)
    )
    target = tilelang.tvm.target.Target({"kind": "cuda", "arch": "sm_90"})
    passes = load_module(operator, "compiling").CUDA_PASSES
    with target, tilelang.tvm.transform.PassContext(opt_level=3, config=passes):
        return tilelang.lower(
            program, target=target, enable_host_codegen=False, enable_device_compile=False
        ).kernel_source


@pytest.mark.parametrize(("operator", "loads", "stores"), [("fused_add_rmsnorm", 3, 2), ("layernorm_bias", 3, 1)])
def test_a_row_is_read_once_and_waits_once(load_module, operator, loads, stores):
    source = lower(load_module, operator, 4096, "float16", (1, 8, 2, 8, 1))
    before, after = source.split("__syncthreads();")  # one barrier
    assert len(re.findall(r"tl::load_global_128\(", before)) == loads
    assert "load_global" not in after
    assert len(re.findall(r"tl::store_global_128\(", source)) == stores


def test_columns_beyond_the_row_have_no_deviation(load_module):
    """Read as zeros, they would add the square of the mean each."""
    source = lower(load_module, "layernorm", 2560, "float16", (1, 8, 2, 8, 1))
    assert re.search(r"if \(.* < 5\) \{\s+#pragma unroll\s+for .*\n\s+float4", source)


def test_what_no_kernel_takes_is_refused(load_module):
    import torch

    run = load_module("rmsnorm", "kernel").run
    x, weight = torch.zeros(2, 100), torch.zeros(100)
    with pytest.raises(ValueError, match=r"hidden a multiple of 128, not torch.float32 and 100"):
        run(x, weight, 1e-6, torch.empty_like(x))
    x, weight = torch.zeros(2, 128, dtype=torch.float16), torch.zeros(128, dtype=torch.bfloat16)
    with pytest.raises(ValueError, match=r"weight and bias of torch.float16 or float32, not torch.bfloat16"):
        run(x, weight, 1e-6, torch.empty_like(x))
    with pytest.raises(ValueError, match=r"shape and the dtype of x"):
        run(x, weight.half(), 1e-6, torch.empty_like(x).float())
