"""Turn what a solution or a reference returned into a list of outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


class WrongOutputError(Exception):
    """The outputs of a call are not those of the Definition."""


def normalize_outputs(returned: Any, names: Sequence[str]) -> list[torch.Tensor]:
    """Return the output tensors in the Definition's order.

    Accepts what upstream accepts: a tensor for a single output, a tuple or list, or a dict by name.
    Raises WrongOutputError for anything else.
    """
    found = _unpack(returned, names)
    if len(found) != len(names):
        raise WrongOutputError(f"the call returned {len(found)} values for {len(names)} output(s)")
    for name, value in zip(names, found, strict=True):
        if not issubclass(type(value), torch.Tensor):
            raise WrongOutputError(f"the output {name!r} is a {type(value).__name__}, not a tensor")
    return found


def _unpack(returned: Any, names: Sequence[str]) -> list[Any]:
    """Unpack a container without calling its own methods or those of its keys: they could compute the outputs now."""
    kind = type(returned)  # not `__class__`, which could lie
    if issubclass(kind, torch.Tensor):
        return [returned]
    if issubclass(kind, dict):
        held = {key: value for key, value in dict.items(returned) if type(key) is str}
        missing = [name for name in names if name not in held]
        if missing:
            raise WrongOutputError(f"the returned dict lacks the output {missing[0]!r}")
        return [held[name] for name in names]
    if issubclass(kind, tuple):
        return list(tuple.__iter__(returned))
    if issubclass(kind, list):
        return list(list.__iter__(returned))
    hint = "; return it, or say by in_place in the [spec] which input it replaces" if returned is None else ""
    raise WrongOutputError(f"the call returned a {kind.__name__}; expected {len(names)} tensor(s){hint}")
