"""Has a solution replaced what it is measured with?

What the evaluator uses is bound to names of its own before the solution is loaded, so a replaced
`time.perf_counter` deceives only others. To replace it is a cheat all the same, and this finds it.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import torch

_WATCHED: dict[str, tuple[Any, tuple[str, ...]]] = {
    "time": (time, ("perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "time", "time_ns")),
    "torch": (torch, ("equal", "full", "randn", "empty")),
    "torch.Tensor": (torch.Tensor, ("clone", "copy_", "fill_", "to", "contiguous", "view", "data_ptr")),
    "torch.cuda": (torch.cuda, ("synchronize", "Event", "Stream", "current_stream", "_sleep")),
}
_OURS = "fib_rmsnorm.evaluation."


class Watch:
    """Remembers what the evaluator relies on as it is now."""

    def __init__(self) -> None:
        self._owners = dict(_WATCHED)
        if cupti := sys.modules.get("cupti.cupti"):
            names = ("get_timestamp", "activity_enable", "activity_disable", "activity_flush_all")
            self._owners["cupti"] = (cupti, names)
        for name, module in sys.modules.items():
            if name.startswith(_OURS):
                members = tuple(key for key, value in vars(module).items() if callable(value))
                self._owners[name] = (module, members)
                for member in members:
                    value = vars(module)[member]
                    if isinstance(value, type) and value.__module__.startswith(_OURS):
                        methods = tuple(key for key, method in vars(value).items() if callable(method))
                        self._owners[f"{name}.{member}"] = (value, methods)
        self._originals = {
            f"{owner}.{name}": _fingerprint(where, name)
            for owner, (where, names) in self._owners.items()
            for name in names
        }

    def replaced(self) -> list[str]:
        """Dotted names of what is not what it was."""
        return [
            f"{owner}.{name}"
            for owner, (where, names) in self._owners.items()
            for name in names
            if _fingerprint(where, name) != self._originals[f"{owner}.{name}"]
        ]


def _fingerprint(where: Any, name: str) -> tuple[int, int]:
    """Identity of a function and of its code: either may be replaced."""
    found = vars(where).get(name, getattr(where, name, None))
    return id(found), id(getattr(found, "__code__", None))
