"""Whether a model says the same with its replaced norms, beside what rounding alone changes."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import nn

from fib_rmsnorm.errors import FibRmsnormError, InputError
from fib_rmsnorm.nn.norm_modules import DropIn, list_drop_ins
from fib_rmsnorm.operators.norms.float64_rows import FLOAT32_EPS

MOST_TIMES_NOISE = 3.0
"""A difference, as a root mean square, up to so many times the noise counts as noise."""


class LogitDifference(NamedTuple):
    """How far the logits of two runs are apart."""

    largest: float
    root_mean_square: float
    same_argmax: float
    """The share of rows whose largest logit is the same."""
    kl_nats: float
    """KL(before || after), the mean of all rows."""


class Verification(NamedTuple):
    """The difference that replaced norms make to a model's logits, and those that rounding alone makes."""

    rows: int
    norms: int
    after: LogitDifference
    noise: dict[str, LogitDifference]
    """By what was changed: the original norms' rounding, or nothing."""

    @property
    def times_noise(self) -> float:
        """The difference over the largest noise, as root mean squares; 0 where nothing differs."""
        noise = max(each.root_mean_square for each in self.noise.values())
        return self.after.root_mean_square / noise if noise else 0.0

    @property
    def is_within_noise(self) -> bool:
        """Whether rounding explains the difference."""
        return self.times_noise <= MOST_TIMES_NOISE

    def __str__(self) -> str:
        runs = {f"{self.norms} norms replaced": self.after, **self.noise}
        width = max(map(len, runs))
        verdict = "within" if self.is_within_noise else "beyond"
        return "\n".join(
            [
                f"{self.rows} rows of logits".ljust(width) + "   largest       rms  same argmax  KL, nats",
                *(
                    f"{name.ljust(width)}  {each.largest:8.1e}  {each.root_mean_square:8.1e}"
                    f"  {each.same_argmax:11.2%}  {each.kl_nats:8.1e}"
                    for name, each in runs.items()
                ),
                f"{verdict} the noise of rounding: {self.times_noise:.2g} times its rms (limit: {MOST_TIMES_NOISE:g})",
            ]
        )


class VerificationError(FibRmsnormError):
    """The replaced norms change a model's logits by more than rounding does."""

    def __init__(self, verification: Verification) -> None:
        super().__init__(str(verification))
        self.verification = verification


def verify(model: nn.Module, inputs: Any) -> Verification:
    """Compare a model's logits before and after `replace`, on inputs of yours.

    `inputs` is what the model is called with: a tensor, a tuple of arguments or a mapping of keywords. The model runs
    six times, without gradients and in evaluation mode: with its replaced norms, twice with the original ones, and with
    three whose rounding is as honest: exact before it rounds, and with rstd 4 units of float32 higher and lower. Their
    differences are the noise. Raises VerificationError, which has the Verification, if the difference is more than 3
    times the noise, and InputError where nothing can be judged.
    """
    places = list_drop_ins(model)
    if not places:
        raise InputError("no norm of this model is replaced: call fib_rmsnorm.nn.replace(model) before")
    run = partial(_run, model, inputs, places)
    after, before = run(lambda module: module), run(lambda module: module.find_original())
    noise = {"noise: run again": compare_logits(before, run(lambda module: module.find_original()))}
    for name, steps in {"exact": 0, "rstd + 4 ULP": 4, "rstd - 4 ULP": -4}.items():
        factor = 1 + steps * FLOAT32_EPS
        noise[f"noise: {name}"] = compare_logits(before, run(partial(_HonestNorm, rstd_factor=factor)))
    found = Verification(before.shape[0], len(places), compare_logits(before, after), noise)
    if found.after.root_mean_square and not any(each.root_mean_square for each in noise.values()):
        raise InputError(
            f"rounding changes none of these {before.shape[0]} rows of logits, so the largest difference "
            f"({found.after.largest:.2g}) cannot be judged: give more inputs"
        )
    if not found.is_within_noise:
        raise VerificationError(found)
    return found


def compare_logits(before: torch.Tensor, after: torch.Tensor) -> LogitDifference:
    """Compare logits, [rows, vocabulary] both."""
    largest = squares = kl_nats = 0.0
    same = 0
    rows = before.shape[0]
    for some, others in zip(*(each.chunk(rows // 256 + 1) for each in (before, after)), strict=True):
        old, new = some.double(), others.double()
        if not bool(old.isfinite().all() and new.isfinite().all()):
            raise InputError("the model's logits are not finite, so they cannot be compared")
        largest = max(largest, float((new - old).abs().max()))
        squares += float((new - old).square().sum())
        same += int((new.argmax(-1) == old.argmax(-1)).sum())
        old, new = old.log_softmax(-1), new.log_softmax(-1)
        kl_nats += float((old.exp() * (old - new)).sum())
    return LogitDifference(largest, (squares / before.numel()) ** 0.5, same / rows, max(0.0, kl_nats / rows))


class _HonestNorm(nn.Module):
    """The norm of a replaced module, computed in float64 and rounded as its convention does."""

    def __init__(self, module: DropIn, rstd_factor: float) -> None:
        super().__init__()
        self._module = (module,)
        self._rstd_factor = rstd_factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        (module,) = self._module
        if not module.takes(x):
            out: torch.Tensor = module(x)
            return out
        cast = module.norm.cast(x, autocast=torch.is_autocast_enabled(x.device.type))
        return module.norm.compute(cast, module.weight, getattr(module, "bias", None), self._rstd_factor)


def _run(
    model: nn.Module, inputs: Any, places: list[tuple[nn.Module, str, DropIn]], choose: Callable[[DropIn], nn.Module]
) -> torch.Tensor:
    """The logits, [rows, vocabulary], in evaluation mode, with other modules in the places of the replaced norms."""
    modes = {module: module.training for module in model.modules()}
    try:
        for parent, key, replaced in places:
            parent._modules[key] = choose(replaced)
        model.eval()
        with torch.no_grad():
            if isinstance(inputs, Mapping):
                out = model(**inputs)
            else:
                out = model(*inputs) if isinstance(inputs, tuple) else model(inputs)
    finally:
        for parent, key, replaced in places:
            parent._modules[key] = replaced
        for module, mode in modes.items():
            module.training = mode
    # The attribute `logits` of what the model returns, or its first tensor of numbers.
    found = out.values() if isinstance(out, Mapping) else out if isinstance(out, tuple) else ()
    for each in (getattr(out, "logits", None), out, *found):
        if isinstance(each, torch.Tensor) and each.is_floating_point() and each.dim() and each.numel():
            return each.detach().reshape(-1, each.shape[-1])
    raise InputError(f"the model returns {type(out).__name__}, which holds no logits")
