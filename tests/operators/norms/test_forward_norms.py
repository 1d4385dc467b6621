"""Norms of rows: their Definitions and hard rows, and right kernels that compute otherwise than the reference."""

import pytest
import torch

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.evaluation.tensors.output_buffers import same_bits
from fib_rmsnorm.operators import RmsNorm, define_by_name, find_operator, list_candidates, recognise_source
from fib_rmsnorm.operators.norms.float64_rows import round_once
from fib_rmsnorm.registry.sources.starting_kernel import make_starting_kernel
from fib_rmsnorm.schema import Definition
from support.mistakes import change_reference, judge
from support.norms import FOREIGN_LAYERNORM, define_sum_norm
from support.paths import REPOSITORY

DTYPES = ("float16", "bfloat16", "float32")


def test_what_is_committed_is_what_define_writes():
    committed = (REPOSITORY / "definitions/norm/rmsnorm_d4096.json").read_text()
    assert committed == RmsNorm().define(4096).model_dump_json(indent=2) + "\n"


@pytest.mark.parametrize("hidden", [0, -128, 2**20 + 1])
def test_a_hidden_size_that_no_model_has_is_refused(hidden):
    with pytest.raises(InputError, match=f"hidden must be 1 to 1048576, not {hidden}"):
        RmsNorm().define(hidden)


ONCE = "does not fit: give one for x, then weight=DTYPE if it differs, then bias=DTYPE if it differs"
REFUSED = {
    "weight=none": "unknown dtype 'none'",
    "weight=bf16": "weight must have the dtype of x, float16, or float32, not bfloat16",
    "bf16,weight=fp32,bias=fp16": "bias must have the dtype of x, bfloat16, or float32, not float16",
    **dict.fromkeys(("gamma=fp32", "weight=fp32,weight=fp32", "fp16,fp16", "eps=fp32"), ONCE),
}


def test_an_operator_or_dtypes_that_cannot_be_are_refused():
    with pytest.raises(InputError, match="unknown dtype 'int8'"):
        RmsNorm().define(128, "int8")
    for dtypes, said in REFUSED.items():
        with pytest.raises(InputError, match=said):
            find_operator("rmsnorm_bias").define(256, dtypes)
    with pytest.raises(InputError, match=r"^dtype 'weight=fp32' does not fit: give one for x and all other tensors$"):
        find_operator("rmsnorm_llama").define(256, "weight=fp32")
    for other in (
        "rmsnorm_llama_d256_weight_fp32",
        "rmsnorm_d256_weight_fp16",
        "rmsnorm_d256_bf16_weight_fp16",
        "rmsnorm_bias_d256_bias_fp32_weight_fp32",
        *("layernorm_d4096_fp16", "layernorm_d0", "layernorm_bias_bias_d128", "layernorm"),
    ):
        assert define_by_name(other) is None
    with pytest.raises(InputError, match=r"available: .*rmsnorm, rmsnorm_llama, rmsnorm_gemma"):
        find_operator("rmsnorm_t5")


MEAN, SQUARES, RSTD = "x_fp32.mean(dim=-1, keepdim=True)", "x_fp32.pow(2)", "rstd = torch.rsqrt(mean_square + eps)"
SQUARES_IN_TURN = (f"{SQUARES}.mean(dim=-1, keepdim=True)", f"sum({SQUARES}.split(1, dim=1)) / x.shape[1]")
ADDED = "torch.addcmul(bias.float(), x_fp32, weight.float() * rstd)"
BIASED = "x_fp32 * rstd * weight.float() + bias.float()"
# Newton's method on an approximate root gives 0 * inf, a NaN, where the formula gives 0.
REFINED = (RSTD, f"{RSTD}\n    rstd = rstd * (1.5 - 0.5 * (mean_square + eps) * rstd * rstd)")
LAYERNORMS = {"layernorm": "weight.float()", "layernorm_bias": "weight.float() + bias.float()"}
"""The end of each formula."""


def off_by(error):
    """The rstd of float64, and this relative error."""
    return RSTD, f"rstd = (x.double().pow(2).mean(dim=-1, keepdim=True) + eps).rsqrt().mul(1 + {error}).float()"


def by_torch(operator):
    others = "weight, bias" if "bias" in operator else "weight, None"
    formula = f"(centered * rstd * {LAYERNORMS[operator]}).to(x.dtype)"
    return formula, f"torch.nn.functional.layer_norm(x, x.shape[-1:], {others}, eps)"


RIGHT = [
    # What cancels may have the errors of its terms.
    *(("rmsnorm_bias", 4096, dtype, 8, (*SQUARES_IN_TURN, BIASED, ADDED)) for dtype in ("float16", "float32")),
    # Of two values that float32 may round to, either is right.
    *(("rmsnorm_llama", 4096, "float16", 16, rstd) for rstd in (SQUARES_IN_TURN, *map(off_by, (0, 1e-6, -1e-6)))),
    *(
        (operator, 1152, dtype, 8, ("/ out_scale", "* (1 / out_scale)"))
        for operator in ("rmsnorm_fp8", "rmsnorm_fp8_e5m2", "fused_add_rmsnorm_fp8")
        for dtype in DTYPES
    ),
    *(("rmsnorm", 256, dtype, batch, REFINED) for dtype in DTYPES for batch in (1, 8)),
    # A gradient by the eps that follows from rstd: infinity less infinity is a NaN in the sums of the only row, too.
    (
        "rmsnorm_backward",
        256,
        "float16",
        1,
        (" * rstd[:, None]\n    s", " * (rstd * rstd.pow(-2) * rstd**2)[:, None]\n    s"),
    ),
    *(
        (operator, hidden, dtype, 10, changes)
        for operator in LAYERNORMS
        for hidden in (128, 1152)
        for dtype in DTYPES
        for changes in (
            by_torch(operator),
            ("centered * rstd", f"(x_fp32 * rstd - {MEAN} * rstd)"),
            (MEAN, "sum(x_fp32.split(1, dim=1)) / x.shape[1]"),
        )
    ),
    *(
        pytest.param(operator, 16384, dtype, 10, by_torch(operator), marks=pytest.mark.fuzz)
        for operator in LAYERNORMS
        for dtype in DTYPES
    ),
]
"""Operators, sizes, dtypes and rows, and what is changed in the reference: old and new text in turn."""


OF_TWO_MEANS = f"({SQUARES}.mean(dim=-1, keepdim=True) - {MEAN}.square()).clamp(min=0)"
WRONG = [
    *(
        (operator, 4096, dtype, 20, ("centered.pow(2).mean(dim=-1, keepdim=True)", OF_TWO_MEANS))
        for operator in LAYERNORMS
        for dtype in DTYPES
    ),
    ("rmsnorm", 1, "float16", 16, ("+ eps", "+ 2 * eps")),
    # By the tolerance of float8, a whole step, it would be right.
    ("rmsnorm_fp8", 512, "float16", 16, ("/ out_scale", "/ out_scale * 0.97")),
]


def judge_changed(operator, hidden, dtype, batch, changes, folder):
    return judge(change_reference(operator, *changes), find_operator(operator).define(hidden, dtype), folder, batch)


@pytest.mark.parametrize(("operator", "hidden", "dtype", "batch", "changes"), RIGHT)
def test_correct_norms_may_compute_otherwise(tmp_path, operator, hidden, dtype, batch, changes):
    assert judge_changed(operator, hidden, dtype, batch, changes, tmp_path) == {}


@pytest.mark.parametrize(("operator", "hidden", "dtype", "batch", "changes"), WRONG)
def test_an_error_that_tolerances_might_cover_is_wrong(tmp_path, operator, hidden, dtype, batch, changes):
    assert judge_changed(operator, hidden, dtype, batch, changes, tmp_path) != {}


def test_kernels_of_one_dtype_are_not_offered_for_two():
    definition = find_operator("rmsnorm").define(384, "weight=float32")
    kinds = {language: make_starting_kernel(definition, language).kind for language in ("triton", "cuda", "cutedsl")}
    assert kinds == {"triton": "kernel", "cuda": "kernel", "cutedsl": "reference"}


def test_few_elements_of_llama_have_two_right_values():
    x, weight = torch.randn(64, 4096, dtype=torch.float16), torch.randn(4096, dtype=torch.float16)
    inputs = {"x": x, "weight": weight, "eps": 1e-6}
    exact = find_operator("rmsnorm_llama").compute_exact(inputs, {"out": torch.float16})["out"]
    assert 0.001 < (exact.values != exact.alternative).float().mean() < 0.05


@pytest.mark.parametrize("form", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_float64_is_rounded_to_the_nearest_number_of_a_format(form):
    numbers = torch.arange(256, dtype=torch.uint8).view(form).float()
    numbers = numbers[numbers.isfinite()].unique().double()
    middles = (numbers[1:] + numbers[:-1]) / 2
    values = torch.cat([numbers, middles, middles * (1 + 2**-40), middles * (1 - 2**-40)])
    distances = (values[:, None] - numbers).abs()
    even = numbers.to(form).view(torch.uint8) % 2 == 0
    expected = torch.where(even, distances, distances * (1 + 2**-50)).argmin(dim=1)
    assert torch.equal(round_once(values, form).double(), numbers[expected])


def test_a_scale_may_be_a_tensor_of_one_element(tmp_path):
    record = find_operator("rmsnorm_fp8").define(256).model_dump()
    record["axes"]["one"] = {"type": "const", "value": 1}
    record["inputs"]["out_scale"]["shape"] = ["one"]
    definition = Definition.model_validate(record)
    assert recognise_source(definition).operator == "rmsnorm_fp8"
    assert judge(definition.reference, definition, tmp_path) == {}


def test_the_scale_may_come_after_eps():
    """Both are scalars: both ways to take them are tried."""
    record = find_operator("fused_add_rmsnorm_fp8").define(256).model_dump()
    inputs = record["inputs"]
    record["inputs"] = {name: inputs[name] for name in ("x", "residual", "weight", "eps", "out_scale")}
    matches = [each[0].tensors for each in list_candidates(Definition.model_validate(record)) if each]
    assert {each["out_scale"] for each in matches} == {"eps", "out_scale"}


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_hard_rows_of_a_sum_cancel_and_overflow(dtype):
    definition = find_operator("fused_add_rmsnorm").define(128, dtype)
    dtype = getattr(torch, dtype)
    x, residual = torch.randn(2, 11, 128).to(dtype)
    inputs = {"x": x, "residual": residual, "weight": torch.ones(128, dtype=dtype), "eps": 1e-6}
    recognition = recognise_source(definition)
    case = recognition.make_hard_case(inputs, 0, "seed")
    out, total = (each.values for each in recognition.compute_exact(case.inputs).values())
    kinds = {kind.partition(" (")[0]: row for row, kind in enumerate(case.row_kinds)}
    assert not total[kinds["residual = -x"]].any() and not out[kinds["residual = -x"]].any()
    near = kinds["residual near -x"]
    assert total[near].any() and (total[near].abs() <= 0.1 * case.inputs["x"][near].abs()).all()
    huge = kinds["one sum of 80000"]
    assert total[huge].isinf().any() == (dtype is torch.float16) and out[huge].isfinite().all()


def test_what_a_residual_is_called_decides_only_between_tensors_of_one_shape():
    source = find_operator("fused_add_rmsnorm").reference
    own = define_sum_norm("any", source, ("res", "hidden", "scale"), ("res_out", "y"), eps="e")
    found = list_candidates(own)
    inputs = {"x": "hidden", "residual": "res", "weight": "scale", "eps": "e"}
    assert [each[0].tensors for each in found if each[0].operator == "fused_add_rmsnorm"] == [
        {**inputs, "out": "y", "new_residual": "res_out"},
        {**inputs, "out": "res_out", "new_residual": "y"},
    ]


def test_the_exact_answer_of_many_blocks_is_that_of_each_row(monkeypatch):
    inputs = {"x": torch.randn(10, 128).half(), "weight": torch.randn(128).half(), "eps": 1e-6}
    whole = RmsNorm().compute_exact(inputs, {"out": torch.float16})["out"].values
    monkeypatch.setattr("fib_rmsnorm.operators.norms.float64_rows._BLOCK_ELEMENTS", 300)
    assert torch.equal(whole, RmsNorm().compute_exact(inputs, {"out": torch.float16})["out"].values)


def test_references_are_probed_by_the_same_inputs_whichever_eps_they_may_hold():
    inputs = {"hidden_states": torch.randn(20, 128).bfloat16(), "weight": torch.randn(128).bfloat16()}
    compared = 0
    for candidates in list_candidates(FOREIGN_LAYERNORM):
        for index in range(3):
            made = [each.make_hard_case(inputs, index, "seed").inputs for each in candidates]
            compared += len(made) - 1
            assert all(same_bits(made[0][name], other[name]) for other in made for name in inputs)
    assert compared > 30
