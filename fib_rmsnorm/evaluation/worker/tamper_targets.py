"""The code of Python and its libraries that the evaluator relies on, for the tamper check."""

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

# In these modules, the check covers the functions and classes whose names the evaluator's code uses.
_USED: tuple[ModuleType, ...] = (
    *(builtins, ctypes, functools, gc, os, random, select, signal, struct, sys, time),
    *(torch, torch._C, torch.cuda),
)
# The check covers these even if the evaluator's code does not use them: timers are made of them.
_USED_BY_TIMERS = {
    *("perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "time", "time_ns"),
    *("Event", "Stream", "current_stream", "synchronize"),
}
_WRAPPED_BY_LIBRARIES = {"print", "open", "manual_seed"}  # the last by torch itself, when something is compiled
# By dotted name. The check covers these completely: their own code, or an operator, uses names that the evaluator's
# code does not.
FULLY_CHECKED: dict[str, Any] = {
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
    "torch.cuda.CUDAGraph": torch.cuda.CUDAGraph,
    "torch.cuda.Event": torch.cuda.Event,
    "torch.utils._device.DeviceContext": DeviceContext,
}
_CUPTI = ("get_timestamp", "activity_enable", "activity_disable", "activity_flush_all", "activity_register_callbacks")
_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
_MONITORING_TOOLS = 6
# Without the signals that end a process or report the end of a child: libraries handle those.
_SIGNALS = sorted(
    signal.valid_signals()
    - {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGABRT, signal.SIGCHLD, signal.SIGPIPE}
)
# The operators by which we read tensors. An implementation in Python could compute an output when we read it.
_READING = ("clone", "copy_", "_to_copy", "detach", "equal", "any", "ne", "cat", "view", "fill_", "gather", "scatter_")
_READING_OVERLOADS = [
    name
    for name in torch._C._dispatch_get_all_op_names()
    if name.startswith("aten::") and name[6:].partition(".")[0] in _READING
]


def find_used(codes: Iterable[CodeType]) -> list[tuple[str, Any, str, Any]]:
    """Find the functions and classes of others whose names occur in code: dotted name, owner, key, value."""
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


def shadows(owner: Any, key: str) -> bool:
    """Whether a name that was added to a fully checked owner shadows another, or is called by Python itself."""
    if isinstance(owner, ModuleType):
        return key in vars(builtins)
    kinds = owner.__mro__[1:] if isinstance(owner, type) else type(owner).__mro__
    return key == "__del__" or any(key in vars(kind) for kind in kinds)


def find_hooks() -> dict[str, Any]:
    """Hooks by which Python runs code between the lines of other code: in the evaluator, while nothing is timed."""
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
    """Names of the torch operators that are implemented in Python. Libraries add operators of their own."""
    registered: set[str] = getattr(torch_library, "_impls", set())
    return registered


def replaces_reading(key: str) -> bool:
    """Whether a registration, such as `aten/clone/CPU`, replaces an operator by which we read outputs."""
    library, name, *_ = key.split("/")
    return library == "aten" and name.partition(".")[0] in _READING and not key.endswith("/Meta")


def find_kernels() -> dict[str, list[str]]:
    """The kernels in torch's dispatcher of the operators by which we read outputs. Takes a millisecond."""
    return {
        name: [line for line in torch._C._dispatch_dump(name).splitlines() if not line.startswith("Meta")]
        for name in _READING_OVERLOADS
    }
