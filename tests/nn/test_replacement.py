"""`replace`: the norms of a loaded model become ours, and everything else stays."""

import copy
import pickle
from typing import Any

import pytest
import torch
from torch import nn

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.nn import RMSNorm, replace, restore
from support import published_norms as published

pytestmark = pytest.mark.usefixtures("served")


@pytest.fixture
def decoder():
    return published.make_decoder(published.RoundedFirst, torch.bfloat16)


def test_replacing_lists_what_it_did(decoder):
    model, _ = decoder
    model.extra = nn.GroupNorm(4, 64)
    assert str(replace(model)).splitlines() == [
        "3 norms replaced:",
        "  2 x blocks.*.0: RoundedFirst(64,), llama, eps 1e-06",
        "  1 x norm: RoundedFirst(64,), llama, eps 1e-06",
        "1 norm left as it is:",
        "  1 x extra: GroupNorm: its forward computes something else",
    ]
    assert isinstance(model.norm, RMSNorm)
    assert str(replace(model)).splitlines()[0] == "0 norms replaced"


@pytest.mark.parametrize(
    "dtype",
    [
        torch.float64,  # which no kernel takes
        pytest.param(torch.bfloat16, marks=pytest.mark.compile),  # it compiles the kernel of the gradients
    ],
)
def test_parameters_stay_the_same_objects(dtype):
    model, ids = published.make_decoder(published.RoundedFirst, dtype)
    model.norm.weight.requires_grad_(False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before, keys = dict(model.named_parameters()), [*model.state_dict()]
    replace(model)
    assert [*model.state_dict()] == keys
    assert all(each is before[name] for name, each in model.named_parameters())
    assert model.head.weight is model.embedding.weight
    model(ids).float().sum().backward()
    weight = model.blocks[0][0].weight
    trained = weight.clone()
    optimizer.step()
    assert not torch.equal(weight, trained)
    assert model.norm.weight.grad is None


@pytest.mark.compile
def test_a_replaced_model_says_the_same_and_can_be_restored(decoder):
    model, ids = decoder
    originals = [module for module in model.modules() if isinstance(module, published.RoundedFirst)]
    expected = model(ids)
    replace(model.train())
    assert model.norm.training
    torch.testing.assert_close(model(ids), expected, rtol=2**-7, atol=2**-7)
    assert restore(model.eval()) == 3
    assert [module for module in model.modules() if isinstance(module, published.RoundedFirst)] == originals
    assert not model.norm.training
    assert torch.equal(model(ids), expected)


@pytest.mark.parametrize(
    ("make_norm", "x_dtype", "weight_dtype"),
    [
        (published.RoundedFirst, torch.bfloat16, torch.float32),  # float32, which the next Linear needs
        (published.RoundedToWeight, torch.float32, torch.bfloat16),  # bfloat16, as T5's last
    ],
)
def test_calls_that_round_otherwise_are_the_originals(make_norm, x_dtype, weight_dtype):
    holder: Any = nn.Sequential(make_norm(64)).to(weight_dtype)
    x = torch.randn(4, 64, dtype=x_dtype)
    expected = holder(x)
    replace(holder)
    assert expected.dtype == holder(x).dtype == weight_dtype
    assert torch.equal(holder(x), expected)
    with torch.no_grad():
        holder.to(weight_dtype)[0].weight.mul_(2)
    assert torch.equal(holder(x), expected * 2)


@pytest.mark.parametrize(
    ("device", "make_norm"),
    [
        ("cpu", published.RoundedFirst),
        ("cpu", nn.RMSNorm),
        *(
            pytest.param("cuda", each, marks=pytest.mark.gpu)
            for each in (published.RoundedFirst, published.RoundedLast, nn.RMSNorm, nn.LayerNorm)
        ),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_dtype_under_autocast_is_the_originals(device, make_norm, dtype):
    """On CUDA, autocast has torch's own norms return float32."""
    holder = nn.Sequential(make_norm(64)).to(device)
    x = torch.randn(4, 64, device=device).to(dtype)
    with torch.autocast(device, dtype=torch.bfloat16):
        expected = holder(x)
        replace(holder)
        assert holder(x).dtype == expected.dtype
        torch.testing.assert_close(holder(x), expected, rtol=2**-7, atol=2**-7)


def test_a_replaced_norm_can_be_parametrized():
    class Doubled(nn.Module):
        def forward(self, weight):
            return 2 * weight

    model, x = nn.Sequential(nn.RMSNorm(64)), torch.randn(4, 64)
    expected = 2 * model(x)
    replace(model)
    nn.utils.parametrize.register_parametrization(model[0], "weight", Doubled())
    torch.testing.assert_close(model(x), expected)


def test_a_norm_in_two_places_stays_one():
    norm = published.RoundedFirst(64)
    model: Any = nn.ModuleDict({"first": norm, "second": nn.Sequential(norm)})
    assert len(replace(model).replaced) == 2
    assert model["first"] is model["second"][0]
    assert restore(model) == 2
    assert model["first"] is model["second"][0] is norm


def test_restoring_keeps_a_weight_that_the_model_was_given_since():
    model = nn.Sequential(published.RoundedFirst(64))
    replace(model)
    model[0].weight = given = nn.Parameter(torch.zeros(64))
    restore(model)
    assert model[0].weight is given


class PreNormBlock(nn.Sequential):
    pass


def one_of_two_with_a_hook():
    model = nn.Sequential(published.RoundedFirst(64), published.RoundedFirst(64))
    model[1].register_forward_hook(lambda *_: None)
    return model


@pytest.mark.parametrize(
    ("model", "replaced", "left"),
    [
        (
            nn.Sequential(nn.LayerNorm(64, elementwise_affine=False), nn.LayerNorm(64, bias=False)),
            ["1"],
            {"0": "no kernel computes a LayerNorm without a weight"},
        ),
        (
            one_of_two_with_a_hook(),
            ["0"],
            {"1": "it has hooks, which would be lost; replace the norms before you register them"},
        ),
        (published.RoundedFirst(64), [], {"": "it is the model itself, and no module holds it"}),
        (PreNormBlock(published.RoundedFirst(64), nn.Linear(64, 64)), ["0"], {}),
    ],
    ids=["no kernel", "hook", "alone", "block"],
)
def test_what_is_left_as_it_is_and_why(model, replaced, left):
    report = replace(copy.deepcopy(model))
    assert [each.name for each in report.replaced] == replaced
    assert {each.name: each.reason for each in report.left} == left


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_a_replaced_model_can_be_copied(decoder, copied):
    model, ids = decoder
    replace(model)
    another = copied(model)
    assert torch.equal(another(ids), model(ids))
    restore(another)
    assert another.norm.weight is not model.norm.weight


@pytest.mark.compile  # it imports torch's compiler
def test_a_replaced_model_compiles_as_one_graph():
    """On a CPU, a float32 x by torch's formula, and a bfloat16 x beside the float32 weight as the original has it."""
    holder = nn.Sequential(published.make_decoder(published.RoundedFirst)[0].norm)
    replace(holder)
    compiled = torch.compile(holder, fullgraph=True, backend="eager")
    for dtype in (torch.float32, torch.bfloat16):
        x = torch.randn(4, 64).to(dtype)
        torch.testing.assert_close(compiled(x), holder(x), rtol=2**-21, atol=2**-21)


def test_a_model_that_fsdp_sharded_is_refused(decoder):
    """FSDP puts each weight together in the module that it met, and not in what took its place."""
    from torch.distributed.fsdp import fully_shard

    model, _ = decoder
    distributed: Any = torch.distributed
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        fully_shard(model, mesh=distributed.init_device_mesh("cpu", (1,)))
        with pytest.raises(InputError, match="before you shard it"):
            replace(model)
    finally:
        distributed.destroy_process_group()
