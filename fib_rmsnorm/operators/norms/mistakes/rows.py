"""The parts of the formulas of RMSNorm and LayerNorm, for some rows of a call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from fib_rmsnorm.operators.late_torch import torch
from fib_rmsnorm.operators.norms.float64_rows import APPLY_WEIGHT, round_once, round_to
from fib_rmsnorm.operators.operator import Inputs

Epilogue = Callable[["torch.Tensor", Inputs], "torch.Tensor"]
"""Makes the output of scaled rows and the inputs, all in the same rows and columns."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Some rows of a call's inputs, for outputs of some columns; computed values are float64."""

    inputs: Inputs
    """The inputs of the whole call by their parts, in their dtypes: x, [batch, hidden], perhaps a weight, [hidden]."""
    rows: torch.Tensor
    """The numbers of the rows."""
    columns: torch.Tensor
    """The numbers of the columns."""
    dtype: torch.dtype
    """The dtype of the rows that a kernel reads, of which x may be made."""
    epilogue: Epilogue
    epilogues: Sequence[Wrong] = ()
    """The usual mistakes in the epilogue."""
    convention: str = "torch"
    """The one by which the weight is applied, of APPLY_WEIGHT."""
    form: torch.dtype | None = None
    """The dtype of the output, if it is not that of the rows."""
    looked_at: torch.Tensor | None = None
    """The numbers of some columns that outputs are cut to, where an element depends on its whole row."""
    is_centered: bool = False
    """Whether the mean is subtracted from x first, as in LayerNorm; all else is then computed of the rest."""

    @property
    def x(self) -> torch.Tensor:
        """The x of the whole call."""
        x: torch.Tensor = self.inputs["x"]
        return x

    @property
    def has_weight(self) -> bool:
        """Whether the operator has a weight."""
        return "weight" in self.inputs

    @cached_property
    def weight(self) -> torch.Tensor:
        """The weight in all columns; ones if the operator has none."""
        weight: torch.Tensor | None = self.inputs.get("weight")
        return torch.ones_like(self.x[0]) if weight is None else weight

    @property
    def eps(self) -> float:
        """The eps of the call."""
        return float(self.inputs["eps"])

    @cached_property
    def parts(self) -> Inputs:
        """All inputs in these rows and columns, tensors in float64."""

        def choose(value: torch.Tensor) -> torch.Tensor:
            if value.numel() == 1:
                return value
            return value[self.rows][:, self.columns] if value.dim() == self.x.dim() else value[self.columns]

        tensors = {part: value for part, value in self.inputs.items() if isinstance(value, torch.Tensor)}
        return {**self.inputs, **{part: choose(value).double() for part, value in tensors.items()}}

    def finish(self, scaled: torch.Tensor) -> torch.Tensor:
        """The right output of scaled rows."""
        return self.epilogue(scaled, self.parts)

    def round(self, output: torch.Tensor) -> torch.Tensor:
        """An output in its dtype."""
        looked_at = output if self.looked_at is None else output[:, self.looked_at]
        return round_once(looked_at, self.form or self.dtype)

    def apply(self, rstd: torch.Tensor, convention: str | None = None) -> torch.Tensor:
        """The output of a statistic, with the weight applied by the right convention or another."""
        convention, normalized = convention or self.convention, self.part * rstd
        if convention == "llama":
            # By way of float32, as kernels do: there, a value that is next to a tie of 16 bits is one.
            normalized = normalized.to(torch.float32).to(torch.float64)
        return self.finish(APPLY_WEIGHT[convention](normalized, self.part_weight, self.dtype))

    @cached_property
    def raw(self) -> torch.Tensor:
        """The rows' x in all columns."""
        return self.x[self.rows].to(torch.float64)

    @cached_property
    def mean(self) -> torch.Tensor:
        """The mean of each row of x, [rows, 1]."""
        return mean(self.raw)

    @cached_property
    def whole(self) -> torch.Tensor:
        """The rows that are normalized, in all columns: x, less its mean if that is subtracted."""
        return self.raw - self.mean if self.is_centered else self.raw

    @cached_property
    def squares(self) -> torch.Tensor:
        """The squares of `whole`, without rounding."""
        return self.whole**2

    @cached_property
    def mean_square(self) -> torch.Tensor:
        """The mean square of each row, [rows, 1]."""
        return mean(self.squares)

    @cached_property
    def rstd(self) -> torch.Tensor:
        """The right statistic of each row, [rows, 1]."""
        return torch.rsqrt(self.mean_square + self.eps)

    @cached_property
    def part(self) -> torch.Tensor:
        """The same in the chosen columns."""
        return self.whole[:, self.columns]

    @cached_property
    def normalized(self) -> torch.Tensor:
        """The right x * rstd."""
        return self.part * self.rstd

    @property
    def scaled(self) -> torch.Tensor:
        """The right rows before the epilogue, if the convention is torch's."""
        return self.normalized * self.part_weight

    @cached_property
    def part_weight(self) -> torch.Tensor:
        """The weight in the chosen columns."""
        return self.weight_of(self.columns)

    def weight_of(self, columns: torch.Tensor) -> torch.Tensor:
        """The weight in other columns, around the ends."""
        return self.weight[columns % len(self.weight)].to(torch.float64)


@dataclass(frozen=True)
class Wrong:
    """A wrong formula."""

    what: str
    """The mistake, in words that follow "RMSNorm"."""
    fix: str
    function: Callable[..., torch.Tensor]
    """Computes it of the rows."""
    slack: float = 0.0
    """The share of the output that the order of a sum may change."""


def mended_by(fix: str, functions: Mapping[str, Callable[..., torch.Tensor]]) -> Iterator[Wrong]:
    """Yield wrong formulas that one fix mends, by what is wrong."""
    for what, function in functions.items():
        yield Wrong(what, fix, function)


def mean(values: torch.Tensor) -> torch.Tensor:
    """The mean of each row, [rows, 1]."""
    return values.mean(dim=-1, keepdim=True)


def dtype_name(dtype: torch.dtype) -> str:
    """The dtype's name, such as `float16`."""
    return str(dtype).removeprefix("torch.")


def rounded_products(dtype: torch.dtype, library: str, fix: str) -> Iterator[Wrong]:
    """Yield the rounding of both products of the scaled rows, as a library does; none of float32."""
    if dtype is not torch.float32:
        narrow = round_to(dtype)
        yield Wrong(
            f"with x * rstd and its product with the weight rounded to {dtype_name(dtype)}, as in {library}",
            fix,
            lambda r: r.finish(narrow(narrow(r.normalized) * r.part_weight)),
        )


def fewer_columns(hidden: int) -> list[int]:
    """Numbers of columns that kernels see when they leave some out: a few tiles, or all but a few."""
    powers = [1 << bit for bit in range(hidden.bit_length()) if 1 << bit < hidden]
    return sorted({*powers, *(hidden - power for power in powers)})
