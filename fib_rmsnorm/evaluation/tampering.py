"""Has a solution replaced what it is measured with?

What the evaluator uses is mostly bound to names of its own before the solution is loaded, so a replaced
`time.perf_counter` deceives only others. To replace it is a cheat all the same, and this finds it. It is code
in the solution's own process, which could in turn be replaced: docs/cheats.md says what stands behind it.
"""

from __future__ import annotations

import builtins
import sys
import time
from typing import Any

import torch
import torch.library

_WATCHED: dict[str, tuple[Any, tuple[str, ...]]] = {
    "time": (time, ("perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "time", "time_ns", "sleep")),
    "torch": (torch, ("equal", "full", "full_like", "randn", "randint", "empty", "copysign")),
    "torch.Tensor": (
        torch.Tensor,
        (
            "clone",
            "copy_",
            "fill_",
            "to",
            "cpu",
            "detach",
            "contiguous",
            "view",
            "data_ptr",
            "any",
            "gather",
            "scatter_",
        ),
    ),
    "torch.cuda": (torch.cuda, ("synchronize", "Event", "Stream", "current_stream", "_sleep")),
    "builtins": (
        builtins,
        ("all", "any", "bool", "getattr", "isinstance", "len", "list", "max", "min", "range", "sorted", "type", "zip"),
    ),
}
_CUPTI = ("get_timestamp", "activity_enable", "activity_disable", "activity_flush_all", "activity_register_callbacks")
_OURS = "fib_rmsnorm.evaluation."
# What looking at a tensor comes down to; in Python they could compute what is looked at.
_OPERATORS = ("clone", "copy_", "_to_copy", "detach", "equal", "any", "ne", "view", "fill_", "gather", "scatter_")


class Watch:
    """Remembers what the evaluator relies on as it is now."""

    def __init__(self) -> None:
        self._owners = dict(_WATCHED)
        if cupti := sys.modules.get("cupti.cupti"):
            self._owners["cupti"] = (cupti, _CUPTI)
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
        self._operators = _aten_operators()

    def replaced(self, *objects: object) -> list[str]:
        """Dotted names of what is not what it was, and of methods that `objects` have got of their own."""
        found = [
            f"{owner}.{name}"
            for owner, (where, names) in self._owners.items()
            for name in names
            if not _same(_fingerprint(where, name), self._originals[f"{owner}.{name}"])
        ]
        found += sorted(_aten_operators() - self._operators)
        return found + [
            f"{type(thing).__name__}.{name}"
            for thing in objects
            for name in vars(thing)
            if callable(getattr(type(thing), name, None))
        ]


def _fingerprint(where: Any, name: str) -> tuple[Any, Any]:
    """A function and its code: either may be replaced."""
    found = vars(where).get(name, getattr(where, name, None))
    return found, getattr(found, "__code__", None)


def _same(one: tuple[Any, Any], other: tuple[Any, Any]) -> bool:
    return one[0] is other[0] and one[1] is other[1]


def _aten_operators() -> set[str]:
    """Python implementations of those of torch's operators that we look with; libraries add operators of their own."""
    registered: set[str] = getattr(torch.library, "_impls", set())
    return {
        key
        for key in registered
        if key.startswith("aten/") and key.split("/")[1].partition(".")[0] in _OPERATORS and not key.endswith("/Meta")
    }
