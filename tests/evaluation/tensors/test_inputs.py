from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.evaluation.tensors import fresh_inputs
from fib_rmsnorm.evaluation.tensors.case_numbers import FEW_ROWS, count_cases
from fib_rmsnorm.evaluation.tensors.fresh_inputs import FreshInputs
from fib_rmsnorm.evaluation.tensors.inputs import Case, DeviceWorkload, generate_inputs, make_case
from fib_rmsnorm.evaluation.tensors.output_buffers import as_bytes, same_bits
from fib_rmsnorm.operators import RmsNorm, define_by_name, find_operator, recognise_source
from fib_rmsnorm.operators.norms.hard_rows import choose_other_eps
from fib_rmsnorm.registry import generate_workloads
from fib_rmsnorm.schema import RandomInput, SafetensorsInput, ScalarInput, Workload
from support.norms import NORMS, on_device

DEFINITION = RmsNorm().define(256)
RECOGNITION = recognise_source(DEFINITION)


def workload_of(batch: int) -> Workload:
    return generate_workloads(DEFINITION, [batch])[0]


def cases_of(workload: Workload, dataset=None, definition=DEFINITION, **options) -> list[Case]:
    recognition = recognise_source(definition)
    numbers = range(count_cases(definition, recognition, workload, **options))
    wanted = DeviceWorkload(definition, workload, "cpu", dataset)
    return [make_case(wanted, recognition, number, **options) for number in numbers]


def test_inputs_depend_on_the_uuid_and_the_name():
    one = workload_of(4)
    same_size = one.model_copy(update={"uuid": workload_of(5).uuid})
    first, second = (generate_inputs(DeviceWorkload(DEFINITION, each, "cpu")) for each in (one, same_size))
    assert not torch.equal(first["x"], second["x"])
    assert not torch.equal(first["x"][0], first["weight"])
    assert first["eps"] == 1e-6


def test_a_scalar_without_a_value_is_refused():
    workload = Workload(axes={"batch": 1}, inputs={"x": RandomInput(), "weight": RandomInput()}, uuid="u")
    with pytest.raises(InputError, match="scalar input 'eps' has no value"):
        generate_inputs(DeviceWorkload(DEFINITION, workload, "cpu"))


@pytest.mark.parametrize("batch", [1, 2, 7, 32])
def test_hard_rows_are_what_breaks_kernels_with_two_values_of_eps(batch):
    """By what lies in them: each of these finds kernels that none of the others finds."""
    hard = [case for case in cases_of(workload_of(batch))[1:-1] if case.explains]
    usual = [case for case in hard if case.name.startswith("hard rows")]
    seen = {(kind, case.inputs["eps"]) for case in usual for kind in case.row_kinds[:batch]}
    assert len({eps for _, eps in seen}) == 2 and len(seen) == 2 * len({kind for kind, _ in seen})
    assert all((case.inputs["weight"] < 0).any() and (case.inputs["weight"] == 0).any() for case in usual)
    rows = torch.cat([case.inputs["x"] for case in hard]).double()
    eps = torch.cat([torch.full((batch,), case.inputs["eps"], dtype=torch.float64) for case in hard])
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


@pytest.mark.parametrize("operator", NORMS)
def test_outputs_are_not_finite_and_reach_the_largest_finite_values(operator):
    """Of every norm, if its outputs are not limited, as float8's are: there, rows of NaN; a ReLU may pass over one."""
    definition = define_by_name(f"{operator}_d128")
    recognition, (workload,) = recognise_source(definition), generate_workloads(definition, [1])
    cases = cases_of(workload, definition=definition)
    exact = [recognition.compute_exact(case.inputs) for case in cases if not case.explains]
    extreme = [each[next(iter(each))].values for each in exact]
    if "fp8" in operator:
        assert [each.isnan().all() for each in extreme] == [True] * ("per_row" in operator)
        return
    values = torch.cat([each.float().flatten() for each in extreme])
    assert values.isnan().any() == (operator != "rmsnorm_relu")
    if not operator.endswith("no_weight"):
        assert values[values.isfinite()].max() > 0.7 * torch.finfo(torch.float16).max


@pytest.mark.parametrize(
    ("batch", "awkward"), [(1, 3), (2, 3), (4, 3), (32, 31), (128, 31), (512, 509), (4096, 509), (65536, 4099)]
)
def test_the_last_case_has_an_awkward_size_and_ends_as_the_first_does(batch, awkward):
    own, *_, case = cases_of(workload_of(batch))
    assert case.name == f"batch={awkward}"
    assert case.workload.axes == {"batch": awkward} and case.inputs["x"].shape == (awkward, 256)
    assert case.recurring == min(batch, awkward)
    assert same_bits(case.inputs["x"][-case.recurring :], own.inputs["x"][-case.recurring :])
    assert same_bits(case.inputs["weight"], own.inputs["weight"])
    assert len(case.inputs["x"].unique(dim=0)) == awkward
    assert not torch.equal(case.inputs["x"][0], own.inputs["x"][0])


def safetensors_workload(path: str) -> Workload:
    given = SafetensorsInput(path=path, tensor_key="x")
    inputs = {"x": given, "weight": RandomInput(), "eps": ScalarInput(value=1e-6)}
    return Workload.model_validate({"axes": {"batch": 2}, "inputs": inputs, "uuid": "u"})


def test_a_safetensors_input_is_loaded_from_the_dataset_and_determines_the_size(tmp_path):
    x = torch.randn(2, 256, dtype=torch.float16)
    save_file({"x": x}, tmp_path / "blob.safetensors")
    workload = safetensors_workload("blob.safetensors")
    own, *others = cases_of(workload, tmp_path)
    assert torch.equal(own.inputs["x"], x)
    assert all(case.workload == workload and case.inputs["x"].shape == x.shape for case in others)


@pytest.mark.parametrize("path", ["../outside.safetensors", "/etc/passwd", "missing.safetensors", "a\0b"])
def test_a_safetensors_input_outside_the_dataset_is_refused(tmp_path, path):
    with pytest.raises(InputError, match=r"leads outside|no such file"):
        generate_inputs(DeviceWorkload(DEFINITION, safetensors_workload(path), "cpu", tmp_path))


def test_an_interpreter_gets_every_kind_of_case_on_few_rows():
    cases = cases_of(workload_of(512), few_rows=True)
    usual = cases_of(workload_of(512))[: len(cases)]
    assert [case.kind for case in cases] == [case.kind for case in usual]
    assert {kind for case in cases for kind in case.row_kinds} == {kind for case in usual for kind in case.row_kinds}
    own, *others = (case.inputs["x"].shape[0] for case in cases)
    assert own == 512 and max(others) <= FEW_ROWS
    same = count_cases(DEFINITION, RECOGNITION, workload_of(1), few_rows=True)
    assert same == count_cases(DEFINITION, RECOGNITION, workload_of(1)), "one row is few"


def make(hidden=4096, batch=3, dtype="float16", device="cpu") -> FreshInputs:
    return FreshInputs(on_device(RmsNorm().define(hidden, dtype), batch, device))


def tensors(inputs):
    return {name: value.clone() for name, value in inputs.items() if isinstance(value, torch.Tensor)}


@pytest.mark.parametrize("hidden", [128, 4096, 32768])
def test_not_even_the_mean_square_of_an_earlier_call_is_right(hidden):
    inputs = make(hidden, 50)
    one, other = (inputs.set(number)["x"].float().pow(2).mean(dim=1).rsqrt() for number in (1, 2))
    assert ((one / other - 1).abs() > 1e-3).float().mean() > 0.95


def test_inputs_made_from_others_still_fit_them_when_asked_again():
    """They are asked whenever outputs of timed calls are revealed."""
    inputs = FreshInputs(on_device(find_operator("layernorm_backward").define(128), 3))
    inputs.set(1)
    assert [inputs.changed(), inputs.changed()] == [[], []]
    inputs.set(2)["rstd"][1] += 1
    assert inputs.changed() == ["rstd"]


def test_inputs_that_move_stay_those_of_their_numbers_and_keep_what_a_call_changed(monkeypatch):
    """Between the trials of a GPU; on a CPU they would stay where they are."""
    monkeypatch.setattr(fresh_inputs, "copy_to_random_place", torch.clone)
    inputs, others = make(), make()
    before = inputs.set(1)["x"]
    inputs.move()
    after = inputs.set(2)["x"]
    assert after.data_ptr() != before.data_ptr() and torch.equal(after, others.set(2)["x"])
    inputs.move()
    assert inputs.changed() == []
    inputs.set(3)["weight"][0] += 1
    inputs.move()
    assert inputs.changed() == ["weight"]


@pytest.mark.parametrize("dtype", ["int32", "bool", "float8_e4m3fn", "bfloat16", "float64"])
def test_other_dtypes(dtype):
    definition = RmsNorm().define(128)
    x = definition.inputs["x"].model_copy(update={"dtype": SimpleNamespace(value=dtype)})
    inputs = FreshInputs(on_device(definition.model_copy(update={"inputs": {**definition.inputs, "x": x}}), 4))
    for number in range(8):
        inputs.set(number)
    assert inputs.changed() == []


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_setting_inputs_copies_no_whole_tensor(dtype):
    inputs = make(batch=64, dtype=dtype)
    x = inputs.set(1)["x"]
    with torch.profiler.profile(profile_memory=True) as profile:
        inputs.set(2)
    assert all(abs(event.self_cpu_memory_usage) < x.nbytes // 2 for event in profile.events())


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda:0", marks=pytest.mark.gpu)])
@settings(max_examples=30)
@given(st.lists(st.booleans(), min_size=1, max_size=80))
def test_the_inputs_of_a_number_do_not_depend_on_earlier_numbers(device, further):
    """The next number takes one step. A process that skips numbers, like another process, starts anew."""
    walker, number = make(128, device=device), None
    for once in further:
        number = walker.number_after(number)
        if not once:
            number = walker.number_after(number)
        reached = tensors(walker.set(number))
    afresh = tensors(make(128, device=device).set(number))
    assert reached.keys() == afresh.keys() and all(torch.equal(reached[name], afresh[name]) for name in afresh)
    assert walker.changed() == []


def test_in_every_row_the_next_call_differs_at_two_places():
    inputs = make(128)
    number = inputs.number_after(None)
    first = inputs.set(number)
    place, before = (first["x"].data_ptr(), first["eps"]), tensors(first)
    for _ in range(100):
        earlier, number = number, inputs.number_after(number)
        current = inputs.set(number)
        assert (current["x"].data_ptr(), current["eps"]) == place
        now = tensors(current)
        for name, value in now.items():
            places = (value != before[name]).sum(dim=-1)
            # A new secret may begin in a row with the place where the one before it ended, but not with the value.
            assert (places == 2).all() or (number != earlier + 1 and ((places == 1) | (places == 2)).all())
        before = now


def test_a_change_by_a_call_is_found_after_the_next_step():
    inputs = make(128)
    number = inputs.number_after(None)
    inputs.set(number)
    assert inputs.changed() == []
    values = inputs.set(number)
    values["weight"][5:8] += 1  # three, because the two numbers restore one element each, which may be among them
    inputs.set(inputs.number_after(number))
    assert inputs.changed() == ["weight"]


STRIDED = {
    "a column of one row": lambda: torch.randn(1, 8)[:, 3],
    "a column": lambda: torch.randn(5, 8)[:, 3],
    "transposed": lambda: torch.randn(5, 8).T,
    "expanded": lambda: torch.randn(1).expand(4),
    "a part": lambda: torch.randn(40)[7:19],
    "nothing": lambda: torch.randn(0, 3),
    "a number": lambda: torch.tensor(2.5),
}


@pytest.mark.parametrize("make", STRIDED.values(), ids=STRIDED.keys())
def test_the_bytes_are_those_of_a_copy(make):
    tensor = make()
    copy = torch.tensor(tensor.tolist()).reshape(tensor.shape)
    assert as_bytes(tensor).tolist() == as_bytes(copy).tolist()
    assert same_bits(tensor, copy)
    assert not tensor.numel() or not same_bits(tensor, copy + 1)
