"""The CuTe DSL kernels, as far as they go without a GPU: how they launch, and what they compile to."""

import json
import re
import sys
from importlib.util import find_spec

import pytest

from support.command_line import run_python
from support.kernel_calls import write_packages

PACKAGE = "rmsnorm_python_cutedsl_v1"
COMPILE = """
import json, sys
from importlib import import_module
from pathlib import Path
import torch
for operator, hidden, dtype, column_dtype, launch in json.loads(sys.argv[1]):
    package = f"{operator}_python_cutedsl_v1"
    entry = import_module(f"{package}.norm_entry")
    form = import_module(f"{package}.kernel").FORM
    dtypes = getattr(torch, dtype), getattr(torch, column_dtype)
    entry.compiled(form, hidden, *dtypes, entry.Launch(*launch))
    (made,) = Path().glob("*.ptx")
    print(json.dumps(made.read_text()))
    made.unlink()
"""

pytestmark = pytest.mark.skipif(find_spec("cutlass") is None, reason="needs nvidia-cutlass-dsl")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with the packed sources as packages."""
    folder = tmp_path_factory.mktemp("cutedsl")
    write_packages(folder, "_python_cutedsl_v1")
    return folder


@pytest.fixture
def entry(monkeypatch, home):
    monkeypatch.syspath_prepend(str(home))
    return pytest.importorskip(f"{PACKAGE}.norm_entry")


@pytest.fixture
def row_launch(entry):
    return sys.modules[f"{PACKAGE}.row_launch"]


@pytest.mark.parametrize("itemsize", [2, 4])
def test_every_launch_covers_its_row(row_launch, itemsize):
    for hidden in [*range(128, 8192 + 1, 128), 16384, 32768, 65536, 131072 - 128]:
        vectors_per_row = hidden * itemsize // 16
        for batch in (1, 8, 513, 4096, 65536):
            launch = row_launch.choose_launch(batch, hidden, itemsize, 132)
            assert 0 < launch.threads * launch.rows <= row_launch.MAX_THREADS
            assert launch.threads % 32 == 0 or (launch.threads < 32 and 32 % launch.threads == 0)
            if launch.vectors:
                assert launch.threads * launch.vectors >= vectors_per_row
            else:
                assert vectors_per_row > row_launch.MAX_THREADS * row_launch.MAX_VECTORS and launch.rows == 1


def test_a_tuned_choice_is_taken_at_as_many_rows_per_multiprocessor(row_launch, monkeypatch):
    row = {"hidden": 4096, "itemsize": 2, "multiprocessors": 132, "rows": 4}
    choices = [{**row, "min_batch": 0, "threads": 512}, {**row, "min_batch": 132, "threads": 128}]
    monkeypatch.setattr(sys.modules[f"{PACKAGE}.choices"], "CHOICES", choices)
    assert row_launch.choose_launch(65, 4096, 2, 66) == (512, 1, 1)
    assert row_launch.choose_launch(66, 4096, 2, 66) == (128, 4, 4)


READ_ONCE = [
    # Its last vectors lie beyond the row; the bias is read beside the weight.
    ("layernorm_bias", ("bfloat16", "bfloat16"), 2560, (96, 1, 4), (3, 1)),
    ("rmsnorm", ("float16", "float16"), 128, (16, 8, 1), (2, 1)),  # rows that share a warp
    ("rmsnorm", ("float16", "float16"), 4096, (512, 1, 1), (2, 1)),
    ("rmsnorm", ("float16", "float16"), 4096, (128, 2, 4), (2, 1)),
    ("rmsnorm", ("float32", "float32"), 4096, (128, 1, 8), (2, 1)),
    ("rmsnorm", ("bfloat16", "float32"), 4096, (256, 1, 2), (3, 1)),  # the weight takes two loads
    ("fused_add_rmsnorm", ("float16", "float16"), 4096, (64, 2, 8), (3, 2)),
    ("fused_add_rmsnorm_llama", ("float16", "float16"), 4096, (256, 1, 2), (3, 2)),
    ("layernorm", ("float32", "float32"), 4096, (128, 1, 8), (2, 1)),
    ("rmsnorm_bias", ("float16", "float16"), 4096, (256, 1, 2), (3, 1)),
    ("rmsnorm_gemma", ("float16", "float16"), 4096, (256, 1, 2), (2, 1)),
    ("rmsnorm_llama", ("float16", "float16"), 4096, (256, 1, 2), (2, 1)),
    ("rmsnorm_no_weight", ("float16", "float16"), 4096, (256, 1, 2), (1, 1)),
]
"""A row's operator, dtypes, size and launch, and for each vector of a thread the loads and stores."""
LONG = [
    (operator, ("float32", "float32"), 65536, (512, 1, 0))
    for operator in ("rmsnorm", "fused_add_rmsnorm", "layernorm_bias")
]


@pytest.fixture(scope="module")
def ptx(home, tmp_path_factory):
    """That of all rows, compiled in one process: CuTe DSL takes seconds to import, and reads then where PTX is kept."""
    folder = tmp_path_factory.mktemp("ptx")
    variables = {"CUTE_DSL_ARCH": "sm_90a", "CUTE_DSL_KEEP": "ptx", "CUTE_DSL_DUMP_DIR": str(folder)}
    rows = [each[:4] for each in READ_ONCE] + LONG
    jobs = json.dumps([(operator, hidden, *dtypes, launch) for operator, dtypes, hidden, launch in rows])
    printed = run_python("-c", COMPILE, jobs, cwd=folder, PYTHONPATH=str(home), **variables)
    return dict(zip(rows, map(json.loads, printed.splitlines()), strict=True))


@pytest.mark.compile
@pytest.mark.parametrize(("operator", "dtypes", "hidden", "launch", "accesses"), READ_ONCE)
def test_a_row_is_read_once_in_16_bytes(ptx, operator, dtypes, hidden, launch, accesses):
    threads, _, vectors = launch
    loads, stores = accesses
    code = ptx[operator, dtypes, hidden, launch]
    assert len(re.findall(r"ld\.global\.v4\.b32", code)) == loads * vectors
    assert len(re.findall(r"st\.global\.v4\.b32", code)) == stores * vectors
    assert len(re.findall(r"(?:ld|st)\.global", code)) == (loads + stores) * vectors
    assert len(re.findall(r"bar\.sync", code)) == (threads > 32)
    assert ".local" not in code  # nothing spills, nothing is indexed
    assert ".ftz" not in code  # subnormals are kept


@pytest.mark.compile
@pytest.mark.parametrize("row", LONG, ids=lambda row: row[0])
def test_a_long_row_is_walked_again(ptx, row):
    code = ptx[row]
    assert re.search(r"ld\.global\.v4\.b32", code)
    assert not re.search(r"ld\.global\.(?!v4)", code)
    assert len(re.findall(r"bar\.sync", code)) == 1
    assert ".local" not in code and ".ftz" not in code


def test_other_shapes_and_dtypes_are_refused(entry):
    import torch

    def refuse(message, hidden, dtype, column_dtype):
        with pytest.raises(ValueError, match=message):
            entry.kernel_for(entry.NormForm(), 8, hidden, dtype, column_dtype, torch.device("cuda"))

    refuse(r"hidden a multiple of 128, not torch.float16 and 100", 100, torch.float16, torch.float16)
    refuse(r"not torch.float64", 4096, torch.float64, torch.float64)
    refuse(r"bias of torch.float16 or float32, not torch.bfloat16", 4096, torch.float16, torch.bfloat16)
