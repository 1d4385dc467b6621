"""Every operator's Definitions: each is named for what differs, is recognised, and has a right reference."""

import pytest

from fib_rmsnorm.operators import define_by_name, find_operator, recognise_source
from support.mistakes import judge
from support.norms import NORMS

PLAIN = {"float16": "", "bf16": "_bf16", "fp32": "_fp32"}
WITH_WEIGHT = {"weight=float32": "_weight_fp32", "bf16,weight=fp32": "_bf16_weight_fp32", "weight=fp32,fp32": "_fp32"}
WITH_BIAS = {
    "weight=float32,bias=float16": "_weight_fp32_bias_fp16",
    "bf16,weight=fp32,bias=fp32": "_bf16_weight_fp32",
    "x=bf16,bias=fp32": "_bf16_bias_fp32",
}
OF_ONE_DTYPE = (
    *("rmsnorm_no_weight", "layernorm_no_weight", "layernorm_scale_shift"),
    *("rmsnorm_llama", "fused_add_rmsnorm_llama"),
)
"""Without a weight, or of references that would multiply by it in its own dtype."""
WEIGHTED = [each for each in NORMS if each not in OF_ONE_DTYPE and "backward" not in each]
BIASED = ("rmsnorm_bias", "layernorm_bias")
CASES = [
    *(
        (name, 1152, dtypes, suffix, 14)
        for names, suffixes in ((NORMS, PLAIN), (WEIGHTED, WITH_WEIGHT), (BIASED, WITH_BIAS))
        for name in names
        for dtypes, suffix in suffixes.items()
    ),
    *(
        (name, hidden, dtypes, PLAIN[dtypes], batch)
        for name in NORMS
        for hidden, dtypes, batch in (
            *((hidden, "float16", 16) for hidden in (1, 3, 64, 2880)),  # none is a multiple of 128
            *((128, "fp32", 1), (256, "bf16", 1), (16384, "float16", 7)),
        )
    ),
]
"""Operators, sizes, the dtypes of x, the weight and the bias, what these add to the Definition's name, and rows."""


@pytest.mark.parametrize(("name", "hidden", "dtypes", "suffix", "batch"), CASES)
def test_it_is_named_and_recognised_and_its_reference_is_right(tmp_path, name, hidden, dtypes, suffix, batch):
    definition = find_operator(name).define(hidden, dtypes)
    columns = [each for each in ("weight", "bias") if each in definition.inputs]
    last = definition.inputs[columns[-1]].dtype.value if columns else "float32"
    assert not suffix.endswith("_fp32") or last == "float32"
    assert definition.name == f"{name}_d{hidden}{suffix}"
    assert definition.constraints == ([] if hidden % 128 else ["hidden % 128 == 0"])
    assert ("stage:training" in definition.tags) == ("backward" in name)
    found = recognise_source(definition)
    assert found.operator == name and found.define_own(definition) == definition
    assert define_by_name(definition.name) == definition
    assert judge(definition.reference, definition, tmp_path, batch) == {}
