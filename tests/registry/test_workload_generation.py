import pytest

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.operators import RmsNorm
from fib_rmsnorm.registry import choose_workloads, generate_workloads
from fib_rmsnorm.registry.workload_generation import list_undetermined
from fib_rmsnorm.schema import AxisVar, Definition, DType, ScalarInput, TensorSpec
from support.norms import define_norm

DEFINITION = RmsNorm().define(4096)
SCALAR = TensorSpec(shape=None, dtype=DType.FLOAT32)


def test_uuids_never_change():
    """They name the tensors of every trace ever recorded."""
    assert [w.uuid for w in generate_workloads(DEFINITION, [1, 8])] == [
        "3c8cd9a5-fc5f-5269-9fa1-17c3ebc365ef",
        "9c539cc4-6fc3-5bfc-aa40-6bdd2c9149d3",
    ]


def test_everything_that_differs_has_a_uuid_of_its_own():
    workloads = [
        *generate_workloads(DEFINITION),
        *generate_workloads(DEFINITION, scalars={"eps": 1e-5}),
        *generate_workloads(RmsNorm().define(8192)),
        *generate_workloads(RmsNorm().define(4096, "bfloat16")),
    ]
    assert len({w.uuid for w in workloads}) == len(workloads) == 20


def with_heads() -> Definition:
    """A Definition with a second variable axis and a second scalar, for which no operator has a default."""
    axes = {**DEFINITION.axes, "heads": AxisVar()}
    inputs = {**DEFINITION.inputs, "scale": SCALAR, "bias": TensorSpec(shape=["heads"], dtype=DType.FLOAT16)}
    reference = "def run(x, weight, eps, scale, bias): ..."
    return Definition.model_validate(
        {**DEFINITION.model_dump(), "axes": axes, "inputs": inputs, "reference": reference}
    )


def test_each_combination_of_sizes_is_a_workload():
    made = generate_workloads(with_heads(), [8, 1], {"heads": [2, 4]}, {"scale": 2})
    assert [each.axes for each in made] == [
        {"batch": 8, "heads": 2},
        {"batch": 8, "heads": 4},
        {"batch": 1, "heads": 2},
        {"batch": 1, "heads": 4},
    ]
    assert made[0].inputs["scale"] == ScalarInput(value=2.0)


@pytest.mark.parametrize(
    ("axes", "scalars", "said"),
    [
        ({}, {"scale": 1}, r"its axis 'heads' needs a size: fib-rmsnorm workload .* --axes heads=SIZES"),
        ({"heads": [2]}, {}, r"its scalar input 'scale' needs a value: fib-rmsnorm workload .* --set scale=VALUE"),
        ({"heads": [0]}, {"scale": 1}, "sizes of heads must be positive, not 0"),
    ],
)
def test_what_nobody_knows_must_be_given(axes, scalars, said):
    with pytest.raises(InputError, match=said):
        generate_workloads(with_heads(), [8], axes, scalars)


def test_without_sizes_each_registered_size_is_chosen_once():
    definition = RmsNorm().define(128)
    small, large = generate_workloads(definition, [4, 24])
    (again,) = generate_workloads(definition, [4], scalars={"eps": 1e-3})
    assert choose_workloads(definition, [small, again, large], []) == [small, large]
    assert [each.axes["batch"] for each in choose_workloads(definition, [small], [8])] == [8]
    assert choose_workloads(definition, [], []) == generate_workloads(definition)


def test_registered_workloads_are_chosen_where_none_can_be_generated():
    registered = generate_workloads(with_heads(), [1, 8], {"heads": [2]}, {"scale": 2})
    assert choose_workloads(with_heads(), registered, [], [512]) == registered
    assert choose_workloads(with_heads(), registered, [8], [512]) == registered[1:]
    with pytest.raises(InputError, match=r"no Workload of batch=4; add one with a value of heads, scale, by: fib-rms"):
        choose_workloads(with_heads(), registered, [8, 4], [512])


@pytest.mark.parametrize("name", ["eps", "epsilon", "norm_eps"])
def test_whatever_the_axis_is_called(name):
    plain = define_norm("any", "def run(a, b, c): ...", ("a", "b", "y"), eps=name)
    (made,) = generate_workloads(plain, [4])
    assert made.axes == {"tokens": 4} and made.inputs[name] == ScalarInput(value=1e-6)


def test_an_eps_is_known_by_its_name_where_no_operator_is():
    definition = with_heads().model_copy(update={"inputs": {"x": DEFINITION.inputs["x"], "eps": SCALAR}})
    assert list_undetermined(definition) == ["heads"]
    definition = definition.model_copy(update={"inputs": {"x": DEFINITION.inputs["x"], "num_steps": SCALAR}})
    assert list_undetermined(definition) == ["heads", "num_steps"]


def test_a_scalar_that_only_its_place_makes_an_eps_needs_a_value():
    plain = define_norm("any", "def run(a, b, c): ...", ("a", "b", "y"), eps="alpha")
    with pytest.raises(InputError, match="'alpha' needs a value"):
        generate_workloads(plain, [4])
    own = define_norm("any", RmsNorm.reference.replace("eps", "alpha"), ("x", "weight", "out"), eps="alpha")
    assert generate_workloads(own, [4])[0].inputs["alpha"] == ScalarInput(value=1e-6)


def test_without_a_variable_axis_there_is_one_workload():
    axes = {"batch": {"type": "const", "value": 4}, "hidden": {"type": "const", "value": 128}}
    definition = Definition.model_validate({**DEFINITION.model_dump(), "axes": axes})
    (made,) = generate_workloads(definition)
    assert made.axes == {}
    with pytest.raises(InputError, match="all axes are constant"):
        generate_workloads(definition, [8])
