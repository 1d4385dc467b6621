"""What the evaluator relies on that is not its own, by name: what tampering.py looks at besides."""

from __future__ import annotations

import builtins
import gc
import json
import random
import secrets
import signal
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
    "gc": (gc, ("get_objects", "get_freeze_count", "unfreeze")),
    "json": (json, ("dumps", "loads")),
    "secrets": (secrets, ("_sysrand",)),
    "random": (random, ("_urandom", "SystemRandom")),
    "random.SystemRandom": (random.SystemRandom, ("getrandbits", "_randbelow", "random", "randrange")),
    "builtins": (
        builtins,
        (
            "all",
            "any",
            "bool",
            "bytes",
            "callable",
            "enumerate",
            "getattr",
            "isinstance",
            "len",
            "list",
            "max",
            "min",
            "range",
            "sorted",
            "type",
            "vars",
            "zip",
        ),
    ),
}
_CUPTI = ("get_timestamp", "activity_enable", "activity_disable", "activity_flush_all", "activity_register_callbacks")
_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
_MONITORING_TOOLS = 6
# Libraries clean up on those that end a process or tell of a child's end.
_SIGNALS = sorted(
    signal.valid_signals()
    - {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGABRT, signal.SIGCHLD, signal.SIGPIPE}
)
# What looking at a tensor comes down to; in Python they could compute what is looked at.
_OPERATORS = ("clone", "copy_", "_to_copy", "detach", "equal", "any", "ne", "view", "fill_", "gather", "scatter_")


def find_watched() -> dict[str, tuple[Any, tuple[str, ...]]]:
    """By dotted name: what has attributes that are watched, and which."""
    cupti = sys.modules.get("cupti.cupti")
    return {**_WATCHED, **({"cupti": (cupti, _CUPTI)} if cupti else {})}


def find_hooks() -> dict[str, Any]:
    """What has Python run code between others' lines: in the evaluator's, where no clock runs."""
    found = {
        "sys.settrace": sys.gettrace(),
        "sys.setprofile": sys.getprofile(),
        "gc.callbacks": list(gc.callbacks),
        "signal.setitimer": [any(signal.getitimer(timer)) for timer in _TIMERS],
        "signal.signal": [signal.getsignal(number) for number in _SIGNALS],
    }
    if sys.version_info >= (3, 12):
        found["sys.monitoring"] = [sys.monitoring.get_tool(tool) for tool in range(_MONITORING_TOOLS)]
    return found


def registered_operators() -> set[str]:
    """Python implementations of torch's operators; libraries add operators of their own."""
    registered: set[str] = getattr(torch.library, "_impls", set())
    return registered


def we_look_with(key: str) -> bool:
    """Whether a registration, such as `aten/clone/CPU`, replaces an operator that we look at outputs with."""
    library, name, *_ = key.split("/")
    return library == "aten" and name.partition(".")[0] in _OPERATORS and not key.endswith("/Meta")
