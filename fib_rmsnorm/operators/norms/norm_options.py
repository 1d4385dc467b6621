"""The options of `define` that operators over rows of a hidden size share."""

from __future__ import annotations

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.operators.operator import Option

DTYPES = {"float16": "", "bfloat16": "_bf16", "float32": "_fp32"}
"""Supported dtypes of activations, and what each adds to the Definition's name."""

SHORT_DTYPES = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32"}
"""What they are called for short."""

MOST_HIDDEN = 1 << 20
"""The limit of the hidden size, far above any model's: a mistyped size could need gigabytes per row."""

HIDDEN = Option("hidden", 4096, f"Hidden size: a multiple of 128, at most {MOST_HIDDEN}.")
DTYPE = Option("dtype", "float16", f"{', '.join(DTYPES)} (short: {', '.join(SHORT_DTYPES)}).")
WEIGHT = Option("weight", "same", "dtype of the weight and the bias: same (as x) or float32.")
BIAS = Option("bias", False, "Whether a bias is added after the weight.")


def check_hidden(hidden: int) -> int:
    """Raise InputError if the hidden size is not a positive multiple of 128 up to 2^20."""
    if hidden <= 0 or hidden % 128:
        raise InputError(f"hidden must be a positive multiple of 128, not {hidden}")
    if hidden > MOST_HIDDEN:
        raise InputError(f"hidden must be at most {MOST_HIDDEN}, not {hidden}")
    return hidden


def read_dtype(dtype: str) -> str:
    """The full name of a dtype; raises InputError if it is not supported."""
    dtype = SHORT_DTYPES.get(dtype, dtype)
    if dtype not in DTYPES:
        raise InputError(f"unknown dtype {dtype!r}: choose from {', '.join([*DTYPES, *SHORT_DTYPES])}")
    return dtype


def read_weight(weight: str, dtype: str) -> str:
    """The full name of the weight's dtype beside activations of `dtype`: "same", or float32 by any of its names."""
    if weight == "same":
        return dtype
    if SHORT_DTYPES.get(weight, weight) != "float32":
        raise InputError(f"unknown weight {weight!r}: choose same or float32; without weight, it is rmsnorm_no_weight")
    return "float32"


def name_weight(weight: str, dtype: str) -> str:
    """What a weight of another dtype than the activations adds to the Definition's name."""
    return "" if weight == dtype else f"_weight{DTYPES[weight]}"
