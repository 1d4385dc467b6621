"""Recognise the norm that a module computes by its outputs on probe inputs. Names do not matter.

Each convention is its formula in float64, with what right float32 code may make of it.
"""

import copy
import inspect
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from fib_rmsnorm.functional.formulas import FORMS, normalize_wide
from fib_rmsnorm.functional.norms import default_eps, returns_float32
from fib_rmsnorm.operators.norms.float64_rows import float32_statistic_error

_DTYPES = (torch.float32, torch.float16, torch.bfloat16)
_LARGEST_EPS = 0.1
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


@dataclass(frozen=True)
class RecognisedNorm:
    """The norm over the last axis that a module computes.

    "torch" and "layernorm" are rounded once, "gemma" too, with the weight 1 + weight; "llama" rounds x * rstd to the
    dtype of x before the weight.
    """

    convention: str
    eps: float | None
    """None is torch's default for the dtype of x."""
    shape: tuple[int, ...]
    calls: frozenset[tuple[torch.dtype, torch.dtype, bool]] = frozenset()
    """The calls in which the module computes it: the dtypes of x and the weight, and whether autocast is on."""

    def cast(self, x: torch.Tensor, *, autocast: bool) -> torch.Tensor:
        """Convert x for our norm: to float32 where CUDA's autocast makes torch's own norms compute and return that."""
        return x.float() if autocast and returns_float32(self.convention, x) else x

    def compute(
        self, x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, rstd_factor: float = 1.0
    ) -> torch.Tensor:
        """Compute the norm of x, [..., hidden], in float64 and round it to x's dtype; see `normalize_wide`."""
        eps = self.find_eps(x.dtype)
        return normalize_wide(self.convention, x.double(), weight, bias, eps, x.dtype, rstd_factor)

    def bound(
        self, x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The least and the greatest output of code that computes in float32 and rounds where the convention does."""
        error = float32_statistic_error(x.shape[-1])
        if self.convention != "layernorm":
            ends = [self.compute(x, weight, bias, 1 + sign * error) for sign in (-1, 1)]
            return torch.minimum(*ends), torch.maximum(*ends)
        wide, eps = x.double(), self.find_eps(x.dtype)
        normalized, exact = (
            normalize_wide("layernorm", wide, *affine, eps, torch.float64) for affine in ((None, None), (weight, bias))
        )
        rstd = torch.rsqrt(wide.var(dim=-1, keepdim=True, correction=0) + eps)
        terms = normalized.abs() + wide.abs().mean(dim=-1, keepdim=True) * rstd
        margin = error * (terms if weight is None else terms * weight.double().abs())
        if bias is not None:
            margin = margin + error * bias.double().abs()
        return (exact - margin).to(x.dtype), (exact + margin).to(x.dtype)

    def find_eps(self, dtype: torch.dtype) -> float:
        """The eps for an x of this dtype."""
        return default_eps(dtype) if self.eps is None else self.eps


class UnrecognisedNormError(Exception):
    """The reason why a module that looks like a norm is not one of ours."""


def looks_like_a_norm(module: nn.Module) -> bool:
    """Whether a module is worth probing, or its class is called a norm."""
    own, has_children = [*module.parameters(recurse=False)], any(True for _ in module.children())
    if "norm" in type(module).__name__.lower():
        return bool(own) or not has_children  # not a block that is called after the norm in it
    return len(own) == 1 and own[0].dim() == 1 and any(True for _ in _list_eps(module)) and not has_children


def recognise_norm(module: nn.Module) -> RecognisedNorm:
    """Recognise the norm that a module computes.

    Raises UnrecognisedNormError with the reason if its forward computes none of ours, or if the module carries what a
    replacement would lose.
    """
    check_structure(module)
    weight, bias = module._parameters.get("weight"), module._parameters.get("bias")
    shape = tuple(weight.shape) if weight is not None else tuple(getattr(module, "normalized_shape", ()))
    if len(shape) != 1 or not shape[0]:
        raise UnrecognisedNormError("it has no weight of one dimension")
    own = torch.float32 if weight is None else weight.dtype
    conventions = ("layernorm",) if bias is not None else (*FORMS,)
    found: list[RecognisedNorm] = []
    for eps in _list_eps(module):
        for convention in conventions:
            norm = RecognisedNorm(convention, eps, shape)
            if _agrees(module, norm, (own, own, False)):
                # The calls that kernels of ours serve: a weight of x's dtype, or of float32.
                calls = [(x, each, cast) for cast in (False, True) for x in _DTYPES for each in {x, torch.float32}]
                agreeing = frozenset(call for call in calls if _agrees(module, norm, call))
                found.append(replace(norm, calls=agreeing))
    if not found:
        raise UnrecognisedNormError("its forward computes something else")
    return max(found, key=lambda each: len(each.calls))


def check_structure(module: nn.Module) -> None:
    """Raise the reason for which a module cannot be swapped, whatever it computes."""
    if any(True for _ in module.children()) or any(True for _ in module.buffers(recurse=False)):
        raise UnrecognisedNormError("it has submodules or buffers")
    if "forward" in vars(module) or isinstance(module, torch.jit.ScriptModule):
        raise UnrecognisedNormError("its forward is replaced or scripted; replace the norms before")
    if any(vars(module).get(hooks) for hooks in HOOKS):
        raise UnrecognisedNormError("it has hooks, which would be lost; replace the norms before you register them")
    parameters = {name: each for name, each in module._parameters.items() if each is not None}
    if not parameters.keys() <= {"weight", "bias"} or (parameters and "weight" not in parameters):
        raise UnrecognisedNormError(f"its parameters are {', '.join(parameters)}; ours are weight and bias")
    if any(type(each) is not nn.Parameter or type(each.data) is not torch.Tensor for each in parameters.values()):
        raise UnrecognisedNormError("its weight is not a plain tensor; replace the norms before you shard the model")
    taken = [*inspect.signature(type(module).forward).parameters.values()][1:]
    if len(taken) != 1 or taken[0].kind not in (taken[0].POSITIONAL_ONLY, taken[0].POSITIONAL_OR_KEYWORD):
        raise UnrecognisedNormError("its forward takes more than x")


def _list_eps(module: nn.Module) -> Iterator[float | None]:
    """The values of a module that may be its eps."""
    if vars(module).get("eps", 0.0) is None:
        yield None
    floats = {each for each in vars(module).values() if isinstance(each, float) and 0 < each <= _LARGEST_EPS}
    yield from sorted(floats)


def _agrees(module: nn.Module, norm: RecognisedNorm, call: tuple[torch.dtype, torch.dtype, bool]) -> bool:
    """Whether a module computes this norm in such a call, in training too: made-up rows and weights, and our dtype.

    The module is left as it is.
    """
    dtype, weight_dtype, autocast = call
    given = next(iter(module._parameters.values()), None)
    device = torch.device("cpu") if given is None or given.is_meta else given.device
    generator = torch.Generator().manual_seed(0)
    # Rows that tell norms apart: plain, of a mean square near eps, of squares beyond float16, and of a mean.
    scales = torch.tensor([1.0, norm.find_eps(dtype) ** 0.5, 300.0, 1.0])
    rows = torch.randn(4, 2, *norm.shape, generator=generator) * scales.view(4, 1, 1)
    rows[3] += 3.0
    x = rows.to(device, dtype)
    affine = {}
    for name in (name for name, each in module._parameters.items() if each is not None):
        size, sign = torch.rand(norm.shape, generator=generator), torch.randn(norm.shape, generator=generator).sign()
        affine[name] = ((size * 0.6 + 0.3) * sign).to(device, weight_dtype)  # so that 1 + weight never cancels
    cast = norm.cast(x, autocast=autocast)
    least, greatest = norm.bound(cast, affine.get("weight"), affine.get("bias"))
    for training in (False, True):
        out = _forward(module, x, affine, training=training, autocast=autocast)
        if not isinstance(out, torch.Tensor) or out.shape != x.shape or out.dtype != cast.dtype:
            return False
        if not bool(((least <= out) & (out <= greatest)).all()):
            return False
    return True


def _forward(
    module: nn.Module, x: torch.Tensor, affine: dict[str, torch.Tensor], *, training: bool, autocast: bool
) -> Any:
    """The output of the forward with these parameters; None if it fails."""
    probed = copy.copy(module)
    probed.__dict__["_parameters"] = {**dict.fromkeys(module._parameters), **affine}
    probed.__dict__["training"] = training
    try:
        with (
            warnings.catch_warnings(),
            torch.no_grad(),
            torch.autocast(x.device.type, dtype=torch.bfloat16, enabled=autocast),
        ):
            warnings.simplefilter("ignore")
            return probed.forward(x)
    except Exception:  # code of others: whatever it raises, it does not compute the norm
        return None
