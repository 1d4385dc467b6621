"""What the evaluator relies on that is not its own: what tampering.py looks at besides."""

from __future__ import annotations

import builtins
import ctypes
import functools
import gc
import json
import json.decoder
import json.encoder
import os
import random
import secrets
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Iterable, Iterator
from types import CodeType, ModuleType
from typing import Any

import torch
from torch import library as torch_library
from torch.utils._device import DeviceContext

# Of these, the functions and classes whose names the evaluator's code uses are watched.
_USED: tuple[ModuleType, ...] = (
    *(builtins, ctypes, functools, gc, os, random, select, signal, struct, sys, time),
    *(torch, torch._C, torch.cuda),
)
# Whether our code happens to use them or not: what timers are made of.
_USED_BY_TIMERS = {
    *("perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "time", "time_ns"),
    *("Event", "Stream", "current_stream", "synchronize"),
}
_WRAPPED_BY_LIBRARIES = {"print", "open", "manual_seed"}  # the last by torch itself, when something is compiled
# And these whole: their own code, or an operator, uses names that ours does not.
_WHOLE: dict[str, Any] = {
    "json": json,
    "json.encoder": json.encoder,
    "json.decoder": json.decoder,
    "json.JSONEncoder": json.JSONEncoder,
    "json.JSONDecoder": json.JSONDecoder,
    "json._default_encoder": json._default_encoder,  # type: ignore[attr-defined]
    "json._default_decoder": json._default_decoder,  # type: ignore[attr-defined]
    "random": random,
    "random.Random": random.Random,
    "random.SystemRandom": random.SystemRandom,
    "secrets": secrets,
    "secrets._sysrand": secrets._sysrand,  # type: ignore[attr-defined]
    "socket.socket": socket.socket,
    "torch.Tensor": torch.Tensor,
    "torch.utils._device.DeviceContext": DeviceContext,
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
_OVERLOADS = [
    name
    for name in torch._C._dispatch_get_all_op_names()
    if name.startswith("aten::") and name[6:].partition(".")[0] in _OPERATORS
]


def find_used(codes: Iterable[CodeType]) -> list[tuple[str, Any, str, Any]]:
    """Functions and classes of others that code uses, by a name that they have: dotted name, owner, key, value."""
    names = {name for code in codes for name in _names_in(code)} - _WRAPPED_BY_LIBRARIES | _USED_BY_TIMERS
    found = [
        (f"{module.__name__}.{name}", module, name, vars(module)[name])
        for module in _USED
        for name in sorted(names & vars(module).keys())
        if callable(vars(module)[name])
    ]
    if cupti := sys.modules.get("cupti.cupti"):
        found += [(f"cupti.{name}", cupti, name, getattr(cupti, name, None)) for name in _CUPTI]
    return found


def _names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)


def find_whole() -> dict[str, Any]:
    """Modules, classes and objects of others of which everything is watched, by dotted name."""
    return dict(_WHOLE)


def hides(owner: Any, key: str) -> bool:
    """Whether what an owner of `find_whole` has got besides stands in the place of something, or runs by itself."""
    if isinstance(owner, ModuleType):
        return key in vars(builtins)
    kinds = owner.__mro__[1:] if isinstance(owner, type) else type(owner).__mro__
    return key == "__del__" or any(key in vars(kind) for kind in kinds)


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
    registered: set[str] = getattr(torch_library, "_impls", set())
    return registered


def we_look_with(key: str) -> bool:
    """Whether a registration, such as `aten/clone/CPU`, replaces an operator that we look at outputs with."""
    library, name, *_ = key.split("/")
    return library == "aten" and name.partition(".")[0] in _OPERATORS and not key.endswith("/Meta")


def find_kernels() -> dict[str, list[str]]:
    """What torch's dispatcher itself knows of the operators that we look at outputs with: it takes a millisecond."""
    return {
        name: [line for line in torch._C._dispatch_dump(name).splitlines() if not line.startswith("Meta")]
        for name in _OVERLOADS
    }
