"""Wrong epilogues of RMSNorm: what is done after the weight is missing, wrong or in another place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch

from fib_rmsnorm.operators.norms.rmsnorm_mistakes.rows import Rows, Wrong, dtype_name, mean, round_to


def scaled_rows(rows: Rows, rstd: torch.Tensor) -> torch.Tensor:
    """The right rows before the epilogue."""
    return rows.part * rstd * rows.part_weight


def wrong_biases(dtype: torch.dtype) -> Iterator[Wrong]:
    """Yield the mistakes with a bias, for x of this dtype."""
    fix = "compute x * rstd * weight + bias"
    yield Wrong("without the bias", "add the bias after the weight", scaled_rows)
    yield Wrong("with the bias subtracted", "add the bias", lambda r, rstd: scaled_rows(r, rstd) - r.parts["bias"])
    yield Wrong(
        "with the bias added before the weight",
        fix,
        lambda r, rstd: (r.part * rstd + r.parts["bias"]) * r.part_weight,
    )
    yield Wrong(
        "with the bias added before the statistic is applied",
        fix,
        lambda r, rstd: (r.part + r.parts["bias"]) * rstd * r.part_weight,
    )
    yield Wrong(
        "with weight and bias swapped",
        fix,
        lambda r, rstd: r.part * rstd * r.parts["bias"] + r.part_weight,
    )
    for name, by in (("previous", -1), ("next", 1)):
        yield Wrong(
            f"with the bias of the {name} column",
            "add bias[c] to column c",
            partial(lambda r, rstd, by: scaled_rows(r, rstd) + r.beside("bias", by), by=by),
        )
    if dtype is not torch.float32:
        yield Wrong(
            f"with x * rstd * weight rounded to {dtype_name(dtype)} before the bias",
            "add the bias in float32 and round once",
            lambda r, rstd: round_to(dtype)(scaled_rows(r, rstd)) + r.parts["bias"],
        )


def wrong_relus() -> Iterator[Wrong]:
    """Yield the mistakes with ReLU."""
    fix = "compute max(x * rstd * weight, 0)"
    others: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "its magnitude": torch.abs,
        "silu": torch.nn.functional.silu,
        "gelu": torch.nn.functional.gelu,
        "tanh's gelu": partial(torch.nn.functional.gelu, approximate="tanh"),
        "a leaky ReLU of slope 0.01": torch.nn.functional.leaky_relu,
        "min(..., 0)": lambda scaled: scaled.clamp(max=0),
    }
    yield Wrong("without the ReLU", fix, scaled_rows)
    for what, function in others.items():
        yield Wrong(
            f"with {what} instead of ReLU", fix, partial(lambda r, rstd, of: of(scaled_rows(r, rstd)), of=function)
        )
    yield Wrong(
        "with the ReLU before the weight",
        "apply the ReLU after the weight, which may be negative",
        lambda r, rstd: (r.part * rstd).relu() * r.part_weight,
    )
    for is_last_too in (False, True):
        yield Wrong(
            "with the ReLU of x, before the mean square",
            "apply the ReLU last",
            partial(_relu_first, is_last_too=is_last_too),
        )


def _relu_first(rows: Rows, _: torch.Tensor, *, is_last_too: bool) -> torch.Tensor:
    out = rows.part.relu() * torch.rsqrt(mean(rows.whole.relu() ** 2) + rows.eps) * rows.part_weight
    return out.relu() if is_last_too else out


def wrong_gates(dtype: torch.dtype) -> Iterator[Wrong]:
    """Yield the mistakes with a SiLU gate, for x of this dtype."""
    fix = "compute x * rstd * weight * silu(gate)"
    gates: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "the gate itself": lambda gate: gate,
        "sigmoid(gate)": torch.sigmoid,
        "gelu(gate)": torch.nn.functional.gelu,
        "relu(gate)": torch.relu,
        "silu(-gate)": lambda gate: torch.nn.functional.silu(-gate),
        "gate * tanh(gate)": lambda gate: gate * gate.tanh(),
    }
    yield Wrong("without the gate", fix, scaled_rows)
    for what, function in gates.items():
        yield Wrong(
            f"with {what} instead of silu(gate)",
            fix,
            partial(lambda r, rstd, of: scaled_rows(r, rstd) * of(r.parts["gate"]), of=function),
        )
    yield Wrong(
        "with the silu of the normalized row instead of the gate's",
        fix,
        lambda r, rstd: torch.nn.functional.silu(scaled_rows(r, rstd)) * r.parts["gate"],
    )
    yield Wrong(
        "with silu(gate) added instead of multiplied",
        fix,
        lambda r, rstd: scaled_rows(r, rstd) + torch.nn.functional.silu(r.parts["gate"]),
    )
    yield Wrong("with x and gate swapped", "normalize x, and gate it with silu(gate)", lambda r, _: _swap_gate(r))
    yield Wrong(
        "of x * silu(gate), as in Mamba-2 without norm_before_gate",
        "normalize x first and multiply by silu(gate) after it",
        lambda r, _: _gate_first(r),
    )
    if dtype is not torch.float32:
        name, narrow = dtype_name(dtype), round_to(dtype)
        yield Wrong(
            f"with x * rstd * weight rounded to {name} before the gate",
            "multiply by silu(gate) in float32 and round once",
            lambda r, rstd: r.finish(narrow(scaled_rows(r, rstd))),
        )
        yield Wrong(
            f"with x * rstd and its product with the weight rounded to {name}, as in Hugging Face's Qwen3-Next",
            "multiply by the weight and silu(gate) in float32 and round once",
            lambda r, rstd: r.finish(narrow(narrow(r.part * rstd) * r.part_weight)),
        )
        yield Wrong(
            f"with silu(gate) rounded to {name}",
            "keep silu(gate) in float32",
            lambda r, rstd: scaled_rows(r, rstd) * narrow(torch.nn.functional.silu(r.parts["gate"])),
        )


def _swap_gate(rows: Rows) -> torch.Tensor:
    gate: torch.Tensor = rows.inputs["gate"][rows.rows].to(torch.float64)
    rstd = torch.rsqrt(mean(gate**2) + rows.eps)
    return gate[:, rows.columns] * rstd * rows.part_weight * torch.nn.functional.silu(rows.part)


def _gate_first(rows: Rows) -> torch.Tensor:
    gate: torch.Tensor = rows.inputs["gate"][rows.rows].to(torch.float64)
    gated = rows.whole * torch.nn.functional.silu(gate)
    return gated[:, rows.columns] * torch.rsqrt(mean(gated**2) + rows.eps) * rows.part_weight
