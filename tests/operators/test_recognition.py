"""Recognition without running anything: by shapes and dtypes, and by the source of an operator's own reference."""

import pytest

from fib_rmsnorm.operators import RmsNorm, list_candidates, recognise_source
from fib_rmsnorm.schema import Definition
from support.norms import define_norm

NAMES = ("hidden_states", "scale", "y")

RENAMED = """\
import torch


def run(hidden_states, scale, epsilon):
    # Comments and names of its own do not matter.
    wide = hidden_states.to(torch.float32)
    squares = wide.pow(2).mean(dim=-1, keepdim=True)
    inverse = torch.rsqrt(squares + epsilon)
    return (wide * inverse * scale.to(torch.float32)).to(hidden_states.dtype)
"""


def test_its_own_reference_is_recognised_under_other_names():
    found = recognise_source(define_norm("any", RENAMED, NAMES, eps="epsilon"))
    assert found.tensors == {"x": "hidden_states", "weight": "scale", "out": "y", "eps": "epsilon"}
    assert found.axes == {"rows": "tokens", "hidden": "channels"}
    assert found.is_own and found.constants == {}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("+ epsilon", "- epsilon"),
        ("pow(2)", "pow(3)"),
        ("squares + epsilon", "squares + squares"),
        ("scale, epsilon):", "scale, epsilon, more=1):"),
        (".to(hidden_states.dtype)", ".to(hidden_states.dtype).relu()"),
        ("import torch\n", "import torch\nfrom mine import torch\n"),
        ("squares", "torch"),
    ],
)
def test_any_other_code_is_not_its_own(old, new):
    assert old in RENAMED
    assert recognise_source(define_norm("any", RENAMED.replace(old, new), NAMES, eps="epsilon")) is None


def test_arguments_in_another_order_are_not_its_own():
    definition = define_norm("rmsnorm_d128", RmsNorm.reference, ("x", "weight", "out"))
    swapped = dict(reversed(definition.inputs.items()))
    assert recognise_source(definition)
    assert recognise_source(definition.model_copy(update={"inputs": swapped})) is None


def test_an_eps_that_is_not_an_input_is_sought_in_the_source_first():
    candidates, *_ = list_candidates(define_norm("any", "EPS = 3e-4\n\n\ndef run(a, b): ...\n", NAMES, eps=None))
    values = [each.constants["eps"] for each in candidates]
    assert values[0] == 3e-4 and {1e-5, 1e-6, 0.0} <= set(values)


def test_a_source_that_is_nested_deeply_is_read():
    source = f"def run(x, weight, eps):\n    return x{' + x' * 900}\n"
    assert recognise_source(define_norm("any", source, ("x", "weight", "out"))) is None


def changed(**update) -> Definition:
    return Definition.model_validate({**RmsNorm().define(128).model_dump(), "reference": "def run(): ...", **update})


ROWS = {"shape": ["batch", "hidden"], "dtype": "float16"}
WEIGHT = {"shape": ["hidden"], "dtype": "float16"}


@pytest.mark.parametrize(
    "definition",
    [
        changed(inputs={"weight": WEIGHT}),
        changed(inputs={"x": ROWS, "residual": ROWS, "third": ROWS, "weight": WEIGHT}),
        changed(inputs={"x": ROWS, "weight": WEIGHT, "bias": WEIGHT, "third": WEIGHT}),
        changed(inputs={"x": ROWS, "weight": {**WEIGHT, "shape": ["batch"]}}),
        changed(inputs={"x": {**ROWS, "dtype": "int8"}, "weight": WEIGHT}),
        changed(inputs={"x": ROWS, "weight": WEIGHT}, outputs={"out": ROWS, "rstd": {**ROWS, "shape": ["batch"]}}),
        changed(outputs={"out": {**ROWS, "dtype": "float32"}}),
        changed(outputs={"out": {**ROWS, "shape": ["hidden", "batch"]}}),
        changed(inputs={"x": {**ROWS, "shape": None}, "weight": WEIGHT}),
    ],
)
def test_other_shapes_and_dtypes_are_not_probed(definition):
    assert list_candidates(definition) == []
