"""The modules in the place of torch's."""

import pytest
import torch

from fib_rmsnorm import nn

pytestmark = pytest.mark.usefixtures("served")


@pytest.mark.parametrize(
    ("norm", "options"),
    [
        ("RMSNorm", {"normalized_shape": 32}),
        ("RMSNorm", {"normalized_shape": (2, 32), "eps": 1e-3}),
        ("RMSNorm", {"normalized_shape": 32, "elementwise_affine": False, "dtype": torch.float64}),
        ("LayerNorm", {"normalized_shape": 32, "dtype": torch.float64}),
        ("LayerNorm", {"normalized_shape": 32, "bias": False, "dtype": torch.float64}),
        ("LayerNorm", {"normalized_shape": 32, "elementwise_affine": False, "dtype": torch.float64}),
        ("LayerNorm", {"normalized_shape": (2, 32), "dtype": torch.float64}),
    ],
)
def test_a_norm_has_torchs_state_and_results(norm, options):
    ours, torchs = getattr(nn, norm)(**options), getattr(torch.nn, norm)(**options)
    for parameter in torchs.parameters():
        torch.nn.init.normal_(parameter)
    assert repr(ours) == repr(torchs)
    assert ours.load_state_dict(torchs.state_dict()) == torchs.load_state_dict(ours.state_dict())
    x = torch.randn(3, 2, 32, dtype=options.get("dtype"))
    torch.testing.assert_close(ours(x), torchs(x))


def test_gemmas_norm_starts_as_the_identity_and_says_its_convention():
    module = nn.RMSNorm(32, 1e-6, convention="gemma", dtype=torch.float64)
    assert "convention='gemma'" in repr(module)
    x = torch.randn(4, 32, dtype=torch.float64)
    torch.testing.assert_close(module(x), torch.nn.functional.rms_norm(x, (32,), None, 1e-6))


def test_a_row_of_another_size_is_refused():
    with pytest.raises(ValueError, match=r"x: expected the last dimensions \[32\], got shape \[4, 31\]"):
        nn.RMSNorm(32, elementwise_affine=False)(torch.ones(4, 31))
