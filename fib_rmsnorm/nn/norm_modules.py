"""RMSNorm and LayerNorm as modules; swapping the norms of a loaded model for ours, and back."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.functional.formulas import check_convention
from fib_rmsnorm.functional.norms import layer_norm, rms_norm
from fib_rmsnorm.nn.norm_recognition import (
    RecognisedNorm,
    UnrecognisedNormError,
    check_structure,
    looks_like_a_norm,
    recognise_norm,
)

_is_autocast = torch._C._is_any_autocast_enabled


class RMSNorm(nn.RMSNorm):
    """torch.nn.RMSNorm by the registry's kernels: the same arguments, parameters, state_dict and results.

    `convention` says what is rounded to x's dtype, as in `functional.rms_norm`. With "gemma" the factor is 1 + weight,
    and the weight starts at zero.
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        convention: str = "torch",
    ) -> None:
        check_convention(convention)
        self.convention = convention
        super().__init__(normalized_shape, eps, elementwise_affine, device, dtype)

    def reset_parameters(self) -> None:
        """Set the weight to what leaves the normalised row as it is."""
        if self.convention == "gemma" and self.elementwise_affine:
            nn.init.zeros_(self.weight)
        else:
            super().reset_parameters()

    def forward(self, x: Tensor) -> Tensor:
        """The norm of x, of x's shape and dtype."""
        shape = self.normalized_shape
        if len(shape) == 1 and self.elementwise_affine:
            return rms_norm(x, self.weight, self.eps, convention=self.convention)
        weight = self.weight.flatten() if self.elementwise_affine else None
        return rms_norm(_flatten(x, shape), weight, self.eps, convention=self.convention).view(x.shape)

    def extra_repr(self) -> str:
        """As torch's, and the convention if it is another."""
        return super().extra_repr() + ("" if self.convention == "torch" else f", convention={self.convention!r}")


class LayerNorm(nn.LayerNorm):
    """torch.nn.LayerNorm by the registry's kernels: the same arguments, parameters, state_dict and results."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - torch's name
        """The norm of the input, of its shape and dtype."""
        shape = self.normalized_shape
        if len(shape) == 1 and self.elementwise_affine:
            return layer_norm(input, self.weight, self.bias, self.eps)
        weight, bias = (None if each is None else each.flatten() for each in (self.weight, self.bias))
        return layer_norm(_flatten(input, shape), weight, bias, self.eps).view(input.shape)


def _flatten(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """x with its last dimensions, which must be these, as one."""
    if tuple(x.shape[-len(shape) :]) != shape:
        raise ValueError(f"x: expected the last dimensions {list(shape)}, got shape {list(x.shape)}")
    return x.flatten(-len(shape))


class ReplacedNorm(NamedTuple):
    """A module that one of ours took the place of."""

    name: str
    was: str
    norm: RecognisedNorm


class LeftNorm(NamedTuple):
    """A module that looks like a norm and stays."""

    name: str
    was: str
    reason: str


class Replacement(NamedTuple):
    """The result of `replace`. Printed, it has a line for each group of layers that differ in their number alone."""

    replaced: tuple[ReplacedNorm, ...]
    left: tuple[LeftNorm, ...]

    def __str__(self) -> str:
        done = [f"{name}: {was}{norm.shape}, {norm.convention}, eps {norm.eps}" for name, was, norm in self.replaced]
        left = [f"{name}: {was}: {reason}" for name, was, reason in self.left]
        lines = [*_list_groups("replaced", done)]
        if left:
            lines += _list_groups("left as " + ("it is" if len(left) == 1 else "they are"), left)
        return "\n".join(lines)


def _list_groups(title: str, named: list[str]) -> Iterator[str]:
    """The title, and a line for each group of lines that differ in numbers of their names alone."""
    yield f"{len(named)} norm{'' if len(named) == 1 else 's'} {title}" + (":" if named else "")
    groups = Counter(re.sub(r"(?<=\.)\d+(?=\.)|^\d+(?=\.)", "*", line) for line in named)
    yield from (f"  {count} x {line}" for line, count in groups.items())


class _DropIn:
    """A replacement's own attribute: the module whose place it took, for calls that round otherwise."""

    original: tuple[nn.Module]
    """In a tuple, so that it is not a submodule: its parameters are the replacement's own."""
    norm: RecognisedNorm

    def forward(self: Any, x: Tensor) -> Tensor:
        """Normalize x, [..., hidden]: by a kernel of ours in the calls that were probed, else as the original does."""
        if self.takes(x):
            out: Tensor = super().forward(x)  # type: ignore[misc]
        else:
            out = torch.func.functional_call(self.original[0], dict(self.named_parameters()), (x,))
        return out

    def find_original(self: Any) -> nn.Module:
        """The original, with the parameters and the mode that the model has now."""
        original: nn.Module = self.original[0]
        original._parameters.update(self._parameters)
        return original.train(self.training)

    def takes(self: Any, x: Tensor) -> bool:
        """Whether the original computes its formula for x."""
        own = self._parameters
        # self.weight takes 0.5 us, but a parametrized one is nowhere else.
        weight = own["weight"] if "weight" in own else self.weight  # noqa: SIM401
        dtype = x.dtype
        is_autocast = _is_autocast() and torch.is_autocast_enabled(x.device.type)
        return (dtype, dtype if weight is None else weight.dtype, is_autocast) in self.norm.calls


class DropInRMSNorm(_DropIn, RMSNorm):
    """An RMSNorm in the place of a module that computed the same."""


class DropInLayerNorm(_DropIn, LayerNorm):
    """A LayerNorm in the place of a module that computed the same."""


DropIn = DropInRMSNorm | DropInLayerNorm


def replace(model: nn.Module) -> Replacement:
    """Swap the norms of a model for ours, in place, each in its own rounding convention.

    A norm is known by what its forward computes on probe inputs, so its class does not matter: Hugging Face's, torch's
    and your own are swapped alike. Parameters stay the same objects, with their dtype, device and gradients, so
    optimizers, ties and state_dict keys stay too. What is not recognised, or carries hooks, is left and listed.
    Replace before torch.compile, DDP and accelerate wrap the model; after FSDP has, it is an InputError.
    """
    if any(base.__module__.startswith("torch.distributed.fsdp") for m in model.modules() for base in type(m).__mro__):
        raise InputError("the model is sharded by FSDP, which keeps its modules: replace the norms before you shard it")
    replaced, left = [], []
    made: dict[nn.Module, DropIn] = {}
    known: dict[tuple[Any, ...], RecognisedNorm] = {}
    for name, parent, key, module in [*_list_places(model)]:
        if isinstance(module, (RMSNorm, LayerNorm)) or not looks_like_a_norm(module):
            continue
        was = type(module).__name__
        try:
            if parent is None:
                raise UnrecognisedNormError("it is the model itself, and no module holds it")
            if module not in made:
                made[module] = _recognise_and_make(module, known)
        except UnrecognisedNormError as reason:
            left.append(LeftNorm(name, was, str(reason)))
            continue
        parent._modules[key] = made[module]
        replaced.append(ReplacedNorm(name, was, made[module].norm))
    return Replacement(tuple(replaced), tuple(left))


def restore(model: nn.Module) -> int:
    """Put the original norms back, with the parameters that the model has now; returns how many places they have."""
    places = list_drop_ins(model)
    for parent, key, module in places:
        parent._modules[key] = module.find_original()
    return len(places)


def list_drop_ins(model: nn.Module) -> list[tuple[nn.Module, str, DropIn]]:
    """The replaced norms of a model, each with the module and the key that hold it."""
    return [
        (parent, key, module)
        for _, parent, key, module in _list_places(model)
        if parent is not None and isinstance(module, (DropInRMSNorm, DropInLayerNorm))
    ]


def _list_places(model: nn.Module) -> Iterator[tuple[str, nn.Module | None, str, nn.Module]]:
    """Every module by each of its names, with its parent and its key there."""
    for name, module in model.named_modules(remove_duplicate=False):
        path, _, key = name.rpartition(".")
        yield name, model.get_submodule(path) if name else None, key, module


def _recognise_and_make(module: nn.Module, known: dict[tuple[Any, ...], RecognisedNorm]) -> DropIn:
    """Make the replacement of a module. Modules of one class, shape, dtype and plain attributes are probed once."""
    check_structure(module)  # hooks are each module's own
    plain = tuple(sorted((name, each) for name, each in vars(module).items() if isinstance(each, (float, int, str))))
    forms = tuple((name, each.shape, each.dtype, each.device) for name, each in module.named_parameters())
    kind = (type(module), plain, forms)
    if kind not in known:
        known[kind] = recognise_norm(module)
    if known[kind].convention == "layernorm" and not forms:
        raise UnrecognisedNormError("no kernel computes a LayerNorm without a weight")
    norm, affine = known[kind], bool(forms)
    drop_in: DropIn
    if norm.convention == "layernorm":
        has_bias = module._parameters.get("bias") is not None
        drop_in = DropInLayerNorm(norm.shape, norm.eps or 0.0, affine, has_bias, device="meta")
    else:
        drop_in = DropInRMSNorm(norm.shape, norm.eps, affine, device="meta", convention=norm.convention)
    drop_in._parameters.update(module._parameters)
    drop_in.train(module.training)
    drop_in.original = (module,)
    drop_in.norm = norm
    return drop_in
