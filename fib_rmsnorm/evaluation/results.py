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
        if not isinstance(value, torch.Tensor):
            raise WrongOutputError(f"the output {name!r} is a {type(value).__name__}, not a tensor")
    return found


def _members(returned: Any, names: Sequence[str]) -> list[Any]:
    """What was returned, without its own ways to be looked at: a subclass could compute what it holds only then."""
    if isinstance(returned, torch.Tensor):
        return [returned]
    if isinstance(returned, dict):
        held = dict(dict.items(returned))
        missing = [name for name in names if name not in held]
        if missing:
            raise WrongOutputError(f"the returned dict lacks the output {missing[0]!r}")
        return [held[name] for name in names]
    if isinstance(returned, tuple):
        return list(tuple.__iter__(returned))
    if isinstance(returned, list):
        return list(list.__iter__(returned))
    raise WrongOutputError(f"the call returned {type(returned).__name__}, not {len(names)} tensor(s)")
