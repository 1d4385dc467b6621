"""What a solution or reference returned, as the list of its outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


class WrongOutputError(Exception):
    """A call returned something that is no set of the Definition's outputs."""


def normalize_outputs(returned: Any, names: Sequence[str]) -> list[torch.Tensor]:
    """Return the output tensors in the Definition's order.

    Accepts what upstream accepts: a tensor for a single output, a tuple or list, or a dict by name.
    Raises WrongOutputError that says what came instead.
    """
    found = _members(returned, names)
    if len(found) != len(names):
        raise WrongOutputError(f"the call returned {len(found)} values for {len(names)} output(s)")
    for name, value in zip(names, found, strict=True):
        if not issubclass(type(value), torch.Tensor):
            raise WrongOutputError(f"the output {name!r} is a {type(value).__name__}, not a tensor")
    return found


def _members(returned: Any, names: Sequence[str]) -> list[Any]:
    """What was returned, without its own ways to be looked at: it, or a key, could compute what it holds only then."""
    kind = type(returned)  # and not what it says of its class
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
    raise WrongOutputError(f"the call returned {kind.__name__}, not {len(names)} tensor(s)")
