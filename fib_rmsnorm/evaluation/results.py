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
    if isinstance(returned, dict):
        missing = [name for name in names if name not in returned]
        if missing:
            raise WrongOutputError(f"the returned dict lacks the output {missing[0]!r}")
        returned = [returned[name] for name in names]
    if isinstance(returned, torch.Tensor):
        returned = [returned]
    if not isinstance(returned, tuple | list):
        raise WrongOutputError(f"the call returned {type(returned).__name__}, not {len(names)} tensor(s)")
    if len(returned) != len(names):
        raise WrongOutputError(f"the call returned {len(returned)} values for {len(names)} output(s)")
    for name, value in zip(names, returned, strict=True):
        if not isinstance(value, torch.Tensor):
            raise WrongOutputError(f"the output {name!r} is a {type(value).__name__}, not a tensor")
    return list(returned)
