"""Has a solution replaced what it is measured with?

What the evaluator uses is mostly bound to names of its own before the solution is loaded, so a replaced
`time.perf_counter` deceives only others. To replace it is a cheat all the same, and this finds it. It is code
in the solution's own process, which could in turn be replaced: docs/cheats.md says what stands behind it.
"""

from __future__ import annotations

import sys
from _ctypes import CFuncPtr
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from types import FunctionType, MethodType, SimpleNamespace
from typing import Any

import torch

from fib_rmsnorm.evaluation.channel import RefusalError
from fib_rmsnorm.evaluation.watched import find_hooks, find_watched, registered_operators, we_look_with

_OURS = "fib_rmsnorm.evaluation."
# Attributes of the evaluator's objects that hold what the solution made.
_OF_THE_SOLUTION = ("_entry", "_returned")
# An attribute that holds one of these is state, and changes. What any other holds when the watch is armed, it goes on
# holding. Of what is in containers that is true of functions in dicts: they are the answers to requests.
_STATE = (type(None), int, float, str, bytearray, list, deque, dict, set)
# What ctypes has Python run with a C function's arguments and result.
_OF_A_C_FUNCTION = ("argtypes", "restype", "errcheck")
# Containers; and what has no code of its own, but calls a function that may be the solution's.
_PARTS: dict[type, Callable[[Any], Iterable[tuple[Any, Any]]]] = {
    dict: dict.items,
    list: enumerate,
    tuple: enumerate,
    deque: enumerate,
    partial: lambda call: enumerate((call.func, *call.args, *call.keywords.values())),
    MethodType: lambda method: [("__func__", method.__func__)],
    SimpleNamespace: lambda namespace: vars(namespace).items(),
}


class Watch:
    """Remembers what the evaluator relies on as it was when this was armed."""

    def __init__(self) -> None:
        self._objects: tuple[object, ...] | None = None

    def arm(self, *objects: object) -> None:
        """Remember everything as it is now, with what `objects` hold; what they will hold later is looked at too."""
        self._objects = objects
        self._ours: dict[str, Any] = {name: module for name, module in sys.modules.items() if name.startswith(_OURS)}
        self._classes = {
            value
            for module in self._ours.values()
            for value in vars(module).values()
            if isinstance(value, type) and value.__module__.startswith(_OURS)
        }
        self._ours |= {f"{one.__module__}.{one.__qualname__}": one for one in self._classes}
        self._names = {name: frozenset(vars(owner)) for name, owner in self._ours.items()}
        self._members = [
            (f"{name}.{key}", vars(owner), key, value)
            for name, owner in self._ours.items()
            for key, value in vars(owner).items()
        ]
        self._others = [
            (f"{name}.{key}", owner, key, getattr(owner, key, None))
            for name, (owner, keys) in find_watched().items()
            for key in keys
        ]
        self._add_what_is_held()
        self._functions = [
            (name, function, function.__code__, function.__defaults__)
            for name, _, _, value in (*self._members, *self._others)
            if isinstance(function := getattr(value, "fget", value), FunctionType)
        ]
        self._modules = set(sys.modules)
        self._operators = set(registered_operators())
        self._hooks = find_hooks()

    def _add_what_is_held(self) -> None:
        """Remember what the objects work with and call: some of it nothing but their attributes holds."""
        held = list(self._held())
        self._members += [one for one in held if isinstance(one[1], dict)]
        self._others += [one for one in held if not isinstance(one[1], dict)]
        c_functions = [(name, value) for name, _, _, value in held if isinstance(value, CFuncPtr)]
        self._addresses = [(name, function, bytes(function)) for name, function in c_functions]
        self._others += [
            (f"{name}.{key}", function, key, getattr(function, key))
            for name, function in c_functions
            for key in _OF_A_C_FUNCTION
        ]

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
            for name, function, code, defaults in self._functions
            if function.__code__ is not code or function.__defaults__ is not defaults
        ]
        found += [name for name, owner, key, value in self._others if getattr(owner, key, None) is not value]
        found += [name for name, function, address in self._addresses if bytes(function) != address]
        found += [
            f"{name}.{key}"
            for name, owner in self._ours.items()
            for key in vars(owner).keys() - self._names[name]
            if callable(vars(owner)[key]) or isinstance(vars(owner)[key], property)  # it hides something
        ]
        found += sorted(filter(we_look_with, registered_operators() - self._operators))
        found += [name for name, hook in find_hooks().items() if hook != self._hooks[name]]
        return found + list(self._replaced_in_objects())

    def _replaced_in_objects(self) -> Iterator[str]:
        """What is not of its own class in the objects, or in what they hold; and methods of their own."""
        for thing in self._walk():
            kind = type(thing)
            if kind in self._classes:
                own = getattr(thing, "__dict__", {})
                yield from (f"{kind.__name__}.{name}" for name in own if callable(getattr(kind, name, None)))
            elif isinstance(thing, torch.Tensor):
                if kind is not torch.Tensor:
                    yield f"the class of a tensor by {kind.__name__}"
            elif kind is FunctionType:
                if thing.__module__ not in self._modules:
                    yield f"something by {thing.__qualname__}"
            elif kind.__module__ not in self._modules or not self._classes.isdisjoint(kind.__mro__):
                yield f"the class of an object by {kind.__name__}"

    def _held(self) -> Iterator[tuple[str, Any, str, Any]]:
        """What the objects and their dicts must go on holding: a dotted name of it, who holds it, by what, itself."""
        names = {id(one): type(one).__name__ for one in self._objects or ()}
        for holder in self._walk():
            for key, value in self._parts(holder):
                names[id(value)] = name = f"{names[id(holder)]}.{key}"
                ours = type(holder) in self._classes and not isinstance(value, _STATE)
                if ours or (type(holder) is dict and callable(value)):
                    yield name, holder, key, value

    def _walk(self) -> Iterator[Any]:
        """The objects and what they hold."""
        waiting = list(self._objects or ())
        while waiting:
            yield (thing := waiting.pop())
            waiting += [value for _, value in self._parts(thing) if type(value) is not int]

    def _parts(self, thing: Any) -> Iterable[tuple[Any, Any]]:
        """What an object of ours, a container or a wrapper of functions holds, and by what name, key or place."""
        kind = type(thing)
        if parts := _PARTS.get(kind):
            return parts(thing)
        if kind in self._classes and kind is not Watch:
            own = getattr(thing, "__dict__", {})
            return [(name, value) for name, value in own.items() if name not in _OF_THE_SOLUTION]
        return ()
