"""Kernels as their authors write them: the call is found, and what is said of each stands in its first line.

Each file says the exit code of `try`, and a text that it prints.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fib_rmsnorm.operators import RmsNorm
from fib_rmsnorm.schema import DType
from support.paths import REPOSITORY

FIELD = Path(__file__).parent
FILES = sorted(file.relative_to(FIELD) for file in FIELD.rglob("*.py") if file.read_text()[:3] in ("# 0", "# 1", "# 2"))


@pytest.mark.process
@pytest.mark.parametrize("file", FILES, ids=str)
def test_a_kernel_as_its_author_wrote_it(fib, file):
    code, _, said = (FIELD / file).read_text().partition("\n")[0].removeprefix("# ").partition(" ")
    outcome = fib("try", FIELD / file, "--check", "--batch-sizes", "1", "--root", REPOSITORY)
    assert outcome.code == int(code), outcome.out + outcome.err
    assert said in outcome.out + outcome.err


def test_a_dtype_that_torch_lacks_ends_a_try_in_one_line(fib, registry):
    made = RmsNorm().define(256)
    lacking = made.inputs["x"].model_copy(update={"dtype": DType.FLOAT4_E2M1})
    registry.write_definition(made.model_copy(update={"name": "fp4", "inputs": {**made.inputs, "x": lacking}}))
    refused = fib("try", FIELD / "weight_first.py", "--definition", "fp4", "--root", registry.root)
    said = "fp4: torch has no tensors of the dtype of x (float4_e2m1), so none can be made"
    assert (refused.code, refused.refusal) == (2, said)
