"""What a norm computes, as the custom ops and the formulas name it, and which operators of the registry compute it."""

from __future__ import annotations

from typing import NamedTuple


class Form(NamedTuple):
    """A norm of rows, apart from the tensors that it is given."""

    is_centred: bool = False
    """Whether the mean is subtracted: LayerNorm."""
    adds_one: bool = False
    """Whether the factor is 1 + weight: Gemma."""
    rounds_first: bool = False
    """Whether the normalised row, and the sum before it, are rounded to x's dtype before what follows: Llama."""


FORMS = {
    "rmsnorm": Form(),
    "rmsnorm_llama": Form(rounds_first=True),
    "rmsnorm_gemma": Form(adds_one=True),
    "layernorm": Form(is_centred=True),
}
CONVENTIONS = {"torch": "rmsnorm", "llama": "rmsnorm_llama", "gemma": "rmsnorm_gemma"}
"""The form of RMSNorm by the name of its rounding convention."""


def name_operator(form: str, *, weight: bool, bias: bool = False, residual: bool = False) -> str | None:
    """The registry's operator that computes a form of these tensors; None if it has none.

    Every operator takes x, the residual, the weight, the bias and eps, in this order, of which it leaves out what it
    does not have, and writes to out and new_residual.
    """
    if not weight:
        # Without a weight all conventions round once.
        return "rmsnorm_no_weight" if form != "layernorm" and not (bias or residual) else None
    if bias:
        return f"{form}_bias" if form in ("rmsnorm", "layernorm") and not residual else None
    if residual:
        return f"fused_add_{form}" if form != "layernorm" else None
    return form


def find_form(convention: str) -> str:
    """The form of RMSNorm by the name of its convention. Raises ValueError for another name."""
    if convention not in CONVENTIONS:
        raise ValueError(f"convention: expected one of {', '.join(map(repr, CONVENTIONS))}, got {convention!r}")
    return CONVENTIONS[convention]


def name_gradient_operator(form: str, *, residual: bool) -> str | None:
    """The registry's operator for the gradients of a form with a weight; None if it has none.

    Of Llama's convention it has the gradients as if nothing were rounded on the way. Gemma's would need 1 + weight in
    x's dtype, and so rounded.
    """
    if form in ("rmsnorm", "rmsnorm_llama"):
        return "fused_add_rmsnorm_backward" if residual else "rmsnorm_backward"
    return "layernorm_backward" if form == "layernorm" and not residual else None
