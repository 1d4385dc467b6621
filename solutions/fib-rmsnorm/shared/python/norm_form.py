"""What a norm computes: the compile-time parameters of one kernel of rows."""

from typing import NamedTuple


class NormForm(NamedTuple):
    """RMSNorm with a weight, or what differs from it. All arithmetic is float32, rounded once unless stated."""

    adds_residual: bool = False  # normalize x + residual, and write that sum too, as new_residual
    rounds_sum: bool = False  # to the dtype of x, before it is normalized
    centered: bool = False  # subtract the row's mean first: LayerNorm
    has_weight: bool = True
    weight_offset: int = 0  # multiply by this + weight: 1 in Gemma
    rounds_before_weight: bool = False  # to the dtype of x, as Llama does
    has_bias: bool = False
