from __future__ import annotations

import pytest
import torch
from safetensors.torch import save_file

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.evaluation.tensors.case_numbers import FEW_ROWS, count_cases
from fib_rmsnorm.evaluation.tensors.inputs import generate_inputs, make_case
from fib_rmsnorm.operators import RmsNorm, define_by_name, list_operators, recognise_source
from fib_rmsnorm.operators.norms.hard_rows import choose_other_eps
from fib_rmsnorm.registry import generate_workloads
from fib_rmsnorm.schema import RandomInput, SafetensorsInput, ScalarInput, Workload

DEFINITION = RmsNorm().define(256)
RECOGNITION = recognise_source(DEFINITION)


def workload_of(batch: int) -> Workload:
    return generate_workloads(DEFINITION, [batch])[0]


def test_inputs_depend_on_the_uuid_and_the_name():
    definition = DEFINITION
    one, other = generate_workloads(definition, [4, 5])
    same_size = one.model_copy(update={"uuid": other.uuid})
    first, second = generate_inputs(definition, one, "cpu"), generate_inputs(definition, same_size, "cpu")
    assert not torch.equal(first["x"], second["x"])
    assert not torch.equal(first["x"][0], first["weight"])
    assert first["eps"] == 1e-6


def test_a_scalar_without_a_value_is_refused():
    workload = Workload(axes={"batch": 1}, inputs={"x": RandomInput(), "weight": RandomInput()}, uuid="u")
    with pytest.raises(InputError, match="scalar input 'eps' has no value"):
        generate_inputs(DEFINITION, workload, "cpu")


@pytest.mark.parametrize("batch", [1, 2, 7, 32])
def test_every_kind_of_hard_row_meets_two_values_of_eps(batch):
    seen = set()
    for case in range(1, count_cases(DEFINITION, RECOGNITION, workload_of(batch)) - 1):
        made = make_case(DEFINITION, RECOGNITION, workload_of(batch), case, "cpu")
        inputs, kinds = made.inputs, made.row_kinds
        if not made.explains:
            continue
        assert all(torch.isfinite(value).all() for value in (inputs["x"], inputs["weight"]))
        seen |= {(kind, inputs["eps"]) for kind in kinds[:batch]}
        assert (inputs["weight"] < 0).any()
        assert (inputs["weight"] == 0).any()
    assert len({eps for _, eps in seen}) == 2
    kinds = {kind for kind, _ in seen}
    assert len(kinds) >= 7
    assert len(seen) == 2 * len(kinds)


@pytest.mark.parametrize("batch", [1, 32])
def test_hard_rows_are_what_breaks_kernels(batch):
    """By what lies in them: each of these finds kernels that none of the others finds."""
    numbers = range(1, count_cases(DEFINITION, RECOGNITION, workload_of(batch)) - 1)
    hard = [make_case(DEFINITION, RECOGNITION, workload_of(batch), number, "cpu") for number in numbers]
    rows = torch.cat([case.inputs["x"] for case in hard if case.explains]).double()
    eps = torch.cat([torch.full((batch,), case.inputs["eps"], dtype=torch.float64) for case in hard if case.explains])
    size, mean_square = rows.abs(), rows.square().mean(dim=1)
    largest = size.argmax(dim=1)
    is_lonely = size.amax(dim=1) > 1000 * size.median(dim=1).values
    shown = {
        "nothing": mean_square == 0,
        "one value": (rows == rows[:, :1]).all(dim=1) & (mean_square > 0),
        "a huge first element": is_lonely & (largest == 0),
        "a huge last element": is_lonely & (largest == 255),
        "a huge element between them": is_lonely & (largest > 0) & (largest < 255),
        "squares above float16's largest, of elements far below it": (mean_square > 65504) & (size.amax(dim=1) < 6000),
        "elements near float16's largest": size.median(dim=1).values > 3000,
        "a mean square about eps": (mean_square / eps > 0.5) & (mean_square / eps < 2),
        "a mean square far below eps": (mean_square < eps / 50) & (mean_square > 0),
    }
    assert [name for name, found in shown.items() if not found.any()] == []


def test_the_other_eps_depends_on_the_workload():
    """Neither it nor its range can be known to a kernel, and it is never near the Workload's own."""
    drawn = {choose_other_eps(1e-6, f"workload {number}") for number in range(200)}
    assert len(drawn) > 150 and min(drawn) < 3e-5 and max(drawn) > 3e-2
    assert all(1e-7 <= eps <= 1e-1 and not 1e-7 < eps < 1e-5 for eps in drawn)


NORMS = [each.name for each in list_operators() if "norms" in type(each).__module__]


@pytest.mark.parametrize("operator", NORMS)
def test_outputs_are_not_finite_and_reach_the_largest_finite_values(operator):
    """Of every norm, if its outputs are not limited anyway, as float8's are; a ReLU may pass over a NaN."""
    definition = define_by_name(f"{operator}_d128")
    recognition, (workload,) = recognise_source(definition), generate_workloads(definition, [1])
    numbers = range(count_cases(definition, recognition, workload))
    cases = [make_case(definition, recognition, workload, number, "cpu") for number in numbers]
    extreme = [recognition.compute_exact(case.inputs)[0].values for case in cases if not case.explains]
    if "fp8" in operator:
        assert extreme == []
        return
    values = torch.cat([each.float().flatten() for each in extreme])
    assert values.isnan().any() == (operator != "rmsnorm_relu")
    if operator != "rmsnorm_no_weight":
        assert values[values.isfinite()].max() > 0.7 * torch.finfo(torch.float16).max


@pytest.mark.parametrize(
    ("batch", "awkward"), [(1, 3), (2, 3), (4, 3), (32, 31), (128, 31), (512, 509), (4096, 509), (65536, 4099)]
)
def test_the_last_case_has_an_awkward_size_and_inputs_of_its_own(batch, awkward):
    workload = workload_of(batch)
    case = make_case(DEFINITION, RECOGNITION, workload, count_cases(DEFINITION, RECOGNITION, workload) - 1, "cpu")
    assert case.name == f"batch={awkward}"
    assert case.workload.axes == {"batch": awkward} and case.inputs["x"].shape == (awkward, 256)
    assert not torch.equal(case.inputs["x"][0], generate_inputs(DEFINITION, workload, "cpu")["x"][0])


def test_a_file_determines_the_size(tmp_path):
    save_file({"x": torch.randn(2, 256, dtype=torch.float16)}, tmp_path / "blob.safetensors")
    workload = safetensors_workload("blob.safetensors")
    for index in range(count_cases(DEFINITION, RECOGNITION, workload)):
        case = make_case(DEFINITION, RECOGNITION, workload, index, "cpu", tmp_path)
        assert case.workload == workload and case.inputs["x"].shape == (2, 256)


def safetensors_workload(path: str) -> Workload:
    given = SafetensorsInput(path=path, tensor_key="x")
    inputs = {"x": given, "weight": RandomInput(), "eps": ScalarInput(value=1e-6)}
    return Workload(axes={"batch": 2}, inputs=inputs, uuid="u")


def test_a_safetensors_input_is_loaded_from_the_dataset(tmp_path):
    x = torch.randn(2, 256, dtype=torch.float16)
    save_file({"x": x}, tmp_path / "blob.safetensors")
    made = generate_inputs(DEFINITION, safetensors_workload("blob.safetensors"), "cpu", tmp_path)
    assert torch.equal(made["x"], x)


@pytest.mark.parametrize("path", ["../outside.safetensors", "/etc/passwd", "missing.safetensors"])
def test_a_safetensors_input_outside_the_dataset_is_refused(tmp_path, path):
    with pytest.raises(InputError, match=r"is outside|no such file"):
        generate_inputs(DEFINITION, safetensors_workload(path), "cpu", tmp_path)


def test_an_interpreter_gets_every_kind_of_case_on_few_rows():
    workload = workload_of(512)
    numbers = range(count_cases(DEFINITION, RECOGNITION, workload, few_rows=True))
    cases = [make_case(DEFINITION, RECOGNITION, workload, number, "cpu", few_rows=True) for number in numbers]
    usual = [make_case(DEFINITION, RECOGNITION, workload, number, "cpu") for number in numbers]
    assert [case.kind for case in cases] == [case.kind for case in usual]
    assert {kind for case in cases for kind in case.row_kinds} == {kind for case in usual for kind in case.row_kinds}
    own, *others = (case.inputs["x"].shape[0] for case in cases)
    assert own == 512 and max(others) <= FEW_ROWS
    same = count_cases(DEFINITION, RECOGNITION, workload_of(1), few_rows=True)
    assert same == count_cases(DEFINITION, RECOGNITION, workload_of(1)), "one row is few"
