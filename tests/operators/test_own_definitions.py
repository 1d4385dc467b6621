"""Every operator's Definitions: each is named for what differs, is recognised, and has a right reference."""

from __future__ import annotations

import pytest

from fib_rmsnorm.operators import define_by_name, find_operator, recognise_source
from support.mistakes import judge
from support.norms import NORMS

PLAIN = {"float16": "", "bf16": "_bf16", "fp32": "_fp32"}
WITH_WEIGHT = {
    "weight=float32": "_weight_fp32",
    "bf16,weight=fp32": "_bf16_weight_fp32",
    "weight=fp32,fp32": "_fp32",
}
WITH_BIAS = {
    "weight=float32,bias=float16": "_weight_fp32_bias_fp16",
    "bf16,weight=fp32,bias=fp32": "_bf16_weight_fp32",
    "x=bf16,bias=fp32": "_bf16_bias_fp32",
}
OF_ONE_DTYPE = ("rmsnorm_no_weight", "rmsnorm_llama", "fused_add_rmsnorm_llama")
"""Without a weight, or of references that would multiply by it in its own dtype."""
WEIGHTED = [each for each in NORMS if each not in OF_ONE_DTYPE and "backward" not in each]
BIASED = ("rmsnorm_bias", "layernorm_bias")
CASES = [
    (name, dtypes, suffix)
    for names, suffixes in ((NORMS, PLAIN), (WEIGHTED, WITH_WEIGHT), (BIASED, WITH_BIAS))
    for name in names
    for dtypes, suffix in suffixes.items()
]
"""The operators, the dtypes of x, the weight and the bias, and what these add to the Definition's name."""


@pytest.mark.parametrize(("name", "dtypes", "suffix"), CASES)
def test_it_is_named_and_recognised_and_its_reference_is_right(tmp_path, name, dtypes, suffix):
    definition = find_operator(name).define(1152, dtypes)
    columns = [each for each in ("weight", "bias") if each in definition.inputs]
    last = definition.inputs[columns[-1]].dtype.value if columns else "float32"
    assert not suffix.endswith("_fp32") or last == "float32"
    assert definition.name == f"{name}_d1152{suffix}"
    assert ("stage:training" in definition.tags) == ("backward" in name)
    found = recognise_source(definition)
    assert found.operator == name and found.define_own(definition) == definition
    assert define_by_name(definition.name) == definition
    assert judge(definition.reference, definition, tmp_path, 14) == {}


@pytest.mark.parametrize(
    ("hidden", "dtype", "batch"),
    [
        *((hidden, "float16", 16) for hidden in (1, 3, 64, 2880)),  # none is a multiple of 128
        *((128, "float32", 1), (256, "bf16", 1), (16384, "float16", 7)),
    ],
)
@pytest.mark.parametrize("name", NORMS)
def test_its_reference_is_right_in_rows_of_any_size_and_in_one(tmp_path, name, hidden, dtype, batch):
    definition = find_operator(name).define(hidden, dtype)
    assert definition.constraints == ([] if hidden % 128 else ["hidden % 128 == 0"])
    assert define_by_name(definition.name) == definition
    assert judge(definition.reference, definition, tmp_path, batch) == {}
