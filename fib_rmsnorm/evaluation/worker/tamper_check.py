"""Has a solution replaced what it is measured with?

What the evaluator uses is mostly bound to names of its own before the solution is loaded, so a replaced
`time.perf_counter` deceives only others. To replace it is a cheat all the same, and this finds it. It is code
in the solution's own process, which could in turn be replaced: docs/cheats.md says what stands behind it.
"""

from __future__ import annotations

import ctypes
import sys
from _ctypes import CFuncPtr
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from types import CodeType, FunctionType
from typing import Any

import torch

from fib_rmsnorm.evaluation.worker.tamper_targets import (
    find_hooks,
    find_kernels,
    find_used,
    find_whole,
    hides,
    registered_operators,
    we_look_with,
)
from fib_rmsnorm.sandbox.channel import RefusalError
from fib_rmsnorm.schema import Workload

# What an evaluation runs in this process.
_OURS = ("fib_rmsnorm.evaluation", "fib_rmsnorm.sandbox", "fib_rmsnorm.building", "fib_rmsnorm.machine")
# Attributes of the evaluator's objects that hold what the solution made, and in what kind of container, if in one.
_OF_THE_SOLUTION: dict[str, type | None] = {"_entry": None, "_returned": deque}
# An attribute that holds one of these is state, and changes. What any other holds when the watch is armed, it goes on
# holding. Of what is in containers that is true of functions in dicts: they are the answers to requests.
_STATE = (type(None), int, float, str, bytearray, list, deque, dict, set)
# What has no code that could be the solution's. Anything else that is no container and no object of ours must have been
# there when the watch was armed: a class or function that came later may say of itself what it likes.
_PLAIN = frozenset({*_STATE, bool, bytes, torch.Generator, Workload})
_OF_A_TENSOR = frozenset(dir(torch.Tensor))
_PARTS: dict[type, Callable[[Any], Iterable[tuple[Any, Any]]]] = {
    dict: dict.items,
    list: enumerate,
    tuple: enumerate,
    deque: enumerate,
    partial: lambda call: enumerate((call.func, *call.args, *call.keywords.values())),
}
# What ctypes has Python run with a C function's arguments and result.
_OF_A_C_FUNCTION = ("argtypes", "restype", "errcheck")
# Where a function is in what is no function, but made of one.
_AROUND_A_FUNCTION = ("fget", "func", "__func__")


class TamperCheck:
    """Remembers what the evaluator relies on as it was when this was armed."""

    def __init__(self) -> None:
        self._objects: tuple[object, ...] | None = None
        self._functions: list[tuple[str, FunctionType, CodeType, Any, Any]] = []

    def arm(self, *objects: object) -> None:
        """Remember everything as it is now, with what `objects` hold; what they will hold later is looked at too."""
        self._objects = objects
        self._functions.clear()
        modules = {name: module for name, module in sys.modules.items() if name.startswith(_OURS)}
        classes = {
            f"{value.__module__}.{value.__qualname__}": value
            for module in modules.values()
            for value in vars(module).values()
            if isinstance(value, type) and value.__module__.startswith(_OURS)
        }
        self._classes = set(classes.values())
        self._whole = find_whole()
        self._owners: dict[str, Any] = modules | classes | self._whole
        self._names = {name: frozenset(vars(owner)) for name, owner in self._owners.items()}
        self._members: list[tuple[str, Any, str, Any]] = [
            (f"{name}.{key}", vars(owner), key, value)
            for name, owner in self._owners.items()
            for key, value in vars(owner).items()
        ]
        self._add_functions(list(self._members))
        ours = [code for _, function, code, _, _ in self._functions if function.__module__.startswith(_OURS)]
        self._others = find_used(ours)
        self._add_functions(self._others)
        self._add_what_is_held()
        self._operators = set(registered_operators())
        self._kernels = find_kernels()
        self._hooks = find_hooks()

    def _add_what_is_held(self) -> None:
        """Remember what the objects work with and call: some of it nothing but their attributes holds."""
        self._known: dict[int, tuple[Any, type]] = {}
        held = list(self._held())
        self._members += [one for one in held if isinstance(one[1], dict)]
        self._others += [one for one in held if not isinstance(one[1], dict)]
        self._add_functions(held)
        c_functions = [(name, value) for name, _, _, value in held if isinstance(value, CFuncPtr)]
        self._addresses = [(name, function, bytes(function)) for name, function in c_functions]
        self._others += [
            (f"{name}.{key}", function, key, getattr(function, key))
            for name, function in c_functions
            for key in _OF_A_C_FUNCTION
        ]

    def _add_functions(self, found: Iterable[tuple[str, Any, str, Any]]) -> None:
        """Remember what functions consist of."""
        for name, _, _, value in found:
            if function := _function_of(value):
                by_name = function.__kwdefaults__
                self._functions.append((name, function, function.__code__, function.__defaults__, by_name))
                self._members += [(f"{name}.{key}", by_name, key, default) for key, default in (by_name or {}).items()]

    def make_check(self) -> Callable[[], None]:
        """A function that raises RefusalError if anything is not what it was; idle until this is armed."""
        replaced = self.replaced  # as it is now, whatever becomes of the class

        def check() -> None:
            if self._objects is not None and (found := replaced()):
                raise RefusalError("RUNTIME_ERROR", f"the solution replaced {', '.join(found[:5])}", fatal=True)

        return check

    def replaced(self) -> list[str]:
        """Dotted names of what is not what it was, of methods that objects have got of their own, and of hooks."""
        found = [name for name, members, key, value in self._members if members.get(key) is not value]
        found += [
            name
            for name, function, code, defaults, by_name in self._functions
            if function.__code__ is not code
            or function.__defaults__ is not defaults
            or function.__kwdefaults__ is not by_name
        ]
        found += [name for name, owner, key, value in self._others if getattr(owner, key, None) is not value]
        found += [name for name, function, address in self._addresses if bytes(function) != address]
        found += [
            f"{name}.{key}"
            for name, owner in self._owners.items()
            if len(vars(owner)) > len(self._names[name])  # what is gone was found above
            for key in vars(owner).keys() - self._names[name]
            if (hides(owner, key) if name in self._whole else _may_hide(vars(owner)[key]))
        ]
        found += sorted(filter(we_look_with, registered_operators() - self._operators))
        found += [name for name, hook in find_hooks().items() if hook != self._hooks[name]]
        return found + list(dict.fromkeys(self._replaced_in_objects()))

    def replaced_kernels(self) -> list[str]:
        """Names of operators of torch's that came by other kernels, in whatever way: dear, so not in `replaced`."""
        now = find_kernels()
        return [name for name, kernels in self._kernels.items() if now[name] != kernels]

    def _replaced_in_objects(self) -> Iterator[str]:
        """What the objects, or what they hold, have got that may have code of its own; and methods of their own."""
        for holder, key, value in self._walk():
            kind = type(value)
            if kind in self._classes:
                own = getattr(value, "__dict__", {})
                yield from (f"{kind.__name__}.{name}" for name in own if callable(getattr(kind, name, None)))
            elif kind is torch.Tensor:
                yield from (f"{type(holder).__name__}.{key}.{name}" for name in vars(value) if name in _OF_A_TENSOR)
            elif kind not in _PLAIN and kind not in _PARTS and not self._is_known(value):
                by = value.__qualname__ if kind is FunctionType else kind.__name__
                yield f"{type(holder).__name__}.{key} by {by}"

    def _is_known(self, value: Any) -> bool:
        if id(value) in self._known:
            return self._known[id(value)][1] is type(value)
        if type(value) is type:
            return value in self._classes
        # The type of an array is what ctypes makes of its length: a subclass is another.
        return isinstance(value, ctypes.Array) and type(value) is ctypes.c_uint64 * len(value)

    def _held(self) -> Iterator[tuple[str, Any, str, Any]]:
        """What the objects and their dicts must go on holding: a dotted name of it, who holds it, by what, itself."""
        names: dict[int, str] = {}
        for holder, key, value in self._walk():
            outer = names.get(id(holder))
            names[id(value)] = name = f"{outer}.{key}" if outer else type(value).__name__
            self._known[id(value)] = value, type(value)
            ours = type(holder) in self._classes and not isinstance(value, _STATE)
            if ours or (type(holder) is dict and callable(value)):
                yield name, holder, key, value

    def _walk(self) -> Iterator[tuple[Any, Any, Any]]:
        """What the objects hold, and what that holds in turn: the holder, by what, and itself."""
        waiting: list[Any] = [self._objects]
        while waiting:
            holder = waiting.pop()
            for key, value in self._parts(holder):
                yield holder, key, value
                if type(value) in _PARTS or type(value) in self._classes:
                    waiting.append(value)

    def _parts(self, thing: Any) -> Iterable[tuple[Any, Any]]:
        """What an object of ours or a container holds, and by what name, key or place."""
        kind = type(thing)
        if parts := _PARTS.get(kind):
            return parts(thing)
        if kind is TamperCheck:
            return ()
        return [
            (name, value)
            for name, value in getattr(thing, "__dict__", {}).items()
            if name not in _OF_THE_SOLUTION or _OF_THE_SOLUTION[name] not in (None, type(value))
        ]


def _function_of(value: Any) -> FunctionType | None:
    """The function that something is, or that a property or a method is made of."""
    for key in _AROUND_A_FUNCTION:
        value = getattr(value, key, value)
    return value if isinstance(value, FunctionType) else None


def _may_hide(value: Any) -> bool:
    """Whether what a module or class of ours has got besides may stand in the place of something."""
    return callable(value) or isinstance(value, property)
