"""`verify`: what replaced norms change in a model's logits, beside what rounding changes."""

import pytest
import torch

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.nn import VerificationError, replace, restore, verify
from support import published_norms as published

pytestmark = pytest.mark.usefixtures("served")


@pytest.fixture
def replaced():
    model, ids = published.make_decoder(published.RoundedFirst, torch.bfloat16)
    replace(model)
    return model, ids


def test_a_replaced_model_is_within_the_noise(replaced):
    model, ids = replaced
    norms, modes = [*model.modules()], [module.training for module in model.modules()]
    found = verify(model.train(), ids)
    assert found.is_within_noise
    assert (found.rows, found.norms) == (16 * 32, 3)
    assert found.after.same_argmax > 0.9
    assert max(each.root_mean_square for each in found.noise.values()) > 0
    assert [*model.modules()] == norms
    assert [module.training for module in model.modules()] == modes


def test_a_norm_of_another_convention_is_found(replaced):
    """In float32 and rounded once: nearer to the exact norm, and not what the model was trained with."""
    model, ids = replaced
    for module in (model.norm, *(block[0] for block in model.blocks)):
        module.convention = "torch"
    with pytest.raises(VerificationError, match="beyond the noise of rounding") as raised:
        verify(model, {"ids": ids})
    assert raised.value.verification.times_noise > 3


def test_a_wrong_eps_is_found_where_there_is_enough_to_judge(replaced):
    model, ids = replaced
    model.norm.eps = 1e-2
    with pytest.raises(VerificationError):
        verify(model, (ids,))
    with pytest.raises(InputError, match="give more inputs"):  # of one token no element is near enough to a tie
        verify(model, ids[:1, :1])
    with torch.no_grad():
        model.head.weight[0, 0] = float("nan")
    with pytest.raises(InputError, match="not finite"):
        verify(model, ids)
    restore(model)
    with pytest.raises(InputError, match="no norm of this model is replaced"):
        verify(model, ids)
