"""Find out whether a solution has replaced code that it is measured with.

The evaluator binds most of what it uses to its own names before it loads the solution, so a replaced
`time.perf_counter` does not deceive it. The replacement is still a cheat, and this check finds it. The check
runs in the solution's own process and could be replaced too: docs/cheats.md says which guards do not depend on it.
"""

import ctypes
import random
import sys
from _ctypes import CFuncPtr
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from types import FunctionType
from typing import Any

import torch

from fib_rmsnorm.evaluation.worker.tamper_targets import (
    FULLY_CHECKED,
    find_hooks,
    find_kernels,
    find_used,
    registered_operators,
    replaces_reading,
    shadows,
)
from fib_rmsnorm.sandbox.channel import RefusalError
from fib_rmsnorm.schema import Workload

# The packages whose code an evaluation runs in this process.
_OURS = ("fib_rmsnorm.evaluation", "fib_rmsnorm.sandbox", "fib_rmsnorm.building", "fib_rmsnorm.machine")
# The fork server has imported these for other processes. Nothing of them runs in this one, and each check would read
# a quarter more.
_OF_OTHERS = ("fib_rmsnorm.evaluation.judging.", "fib_rmsnorm.evaluation.ceiling.")
# Attributes of the evaluator's objects that hold objects of the solution; and the type of their container, if any.
_OF_THE_SOLUTION: dict[str, type | None] = {"_entry": None, "_returned": deque}
# Attributes that hold one of these types are state and may change. All others must keep the value that they had when
# the check was armed. In containers, only functions in dicts must stay: they are the handlers of requests.
_STATE = (type(None), int, float, str, bytearray, list, deque, dict, set)
# Types whose objects cannot contain code of the solution's. Any other object that is neither a container nor of a class
# of ours must have existed when the check was armed: a class or function that came later can lie about itself.
_PLAIN = frozenset({*_STATE, bool, bytes, torch.Generator, Workload})
_OF_A_TENSOR = frozenset(dir(torch.Tensor))
_PARTS: dict[type, Callable[[Any], Iterable[tuple[Any, Any]]]] = {
    dict: dict.items,
    list: enumerate,
    tuple: enumerate,
    deque: enumerate,
    partial: lambda call: enumerate((call.func, *call.args, *call.keywords.values())),
}
# Attributes through which ctypes runs Python code on a C function's arguments and result.
_OF_A_C_FUNCTION = ("argtypes", "restype", "errcheck")
_OF_A_FUNCTION = ("__code__", "__defaults__", "__kwdefaults__")
# Attributes through which properties, partials and methods hold their function.
_AROUND_A_FUNCTION = ("fget", "func", "__func__")


class TamperCheck:
    """Remembers the code that the evaluator relies on, by dotted names, as it was when the check was armed."""

    def __init__(self) -> None:
        self._objects: tuple[object, ...] | None = None
        self._members: list[tuple[str, Any, str, Any]] = []
        """Values of dicts: the dict, the key and the value."""
        self._others: list[tuple[str, Any, str, Any]] = []
        """Values of attributes: the owner, the key and the value. Of functions, their code and defaults."""
        self._owners: dict[str, tuple[Any, frozenset[str], bool]] = {}
        """Modules and classes with all their names, and whether they are fully checked."""

    def arm(self, *objects: object) -> None:
        """Remember everything as it is now, including what `objects` hold. What they hold later is checked too."""
        random.Random("")  # from Python 3.13 on, the first seed that is a text completes the module
        self._objects = objects
        modules = {
            name: module
            for name, module in sys.modules.items()
            if name.startswith(_OURS) and not name.startswith(_OF_OTHERS)
        }
        classes = {
            f"{value.__module__}.{value.__qualname__}": value
            for module in modules.values()
            for value in vars(module).values()
            if isinstance(value, type) and value.__module__.startswith(_OURS)
        }
        self._classes = set(classes.values())
        owners: dict[str, Any] = modules | classes | FULLY_CHECKED
        members = [
            (f"{name}.{key}", vars(owner), key, value)
            for name, owner in owners.items()
            for key, value in vars(owner).items()
        ]
        self._owners = {name: (owner, frozenset(vars(owner)), name in FULLY_CHECKED) for name, owner in owners.items()}
        self._members += members
        self._add_functions(members)
        codes = [(owner, value) for _, owner, key, value in self._others if key == "__code__"]
        ours = [code for function, code in codes if function.__module__.startswith(_OURS)]
        self._others += (used := find_used(ours))
        self._add_functions(used)
        self._add_held_values()
        self._operators = set(registered_operators())
        self._kernels = find_kernels()
        self._hooks = find_hooks()

    def _add_held_values(self) -> None:
        """Remember what the objects hold: some of it can be reached only through their attributes."""
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
        for name, _, _, value in found:
            if function := _function_of(value):
                by_name = function.__kwdefaults__ or {}
                self._others += [(name, function, key, getattr(function, key)) for key in _OF_A_FUNCTION]
                self._members += [(f"{name}.{key}", by_name, key, one) for key, one in by_name.items()]

    def make_check(self) -> Callable[[], None]:
        """Return a function that raises RefusalError if anything was replaced. It passes until the check is armed."""
        replaced = self.replaced  # bound now, in case the class is changed later

        def check() -> None:
            if self._objects is not None and (found := replaced()):
                why = f"the solution replaced {', '.join(found[:5])}"
                raise RefusalError("RUNTIME_ERROR", why, fatal=True, is_cheat=True)

        return check

    def replaced(self) -> list[str]:
        """Names of what was replaced, or may shadow something, of methods set on single objects, and of hooks."""
        found = [name for name, members, key, value in self._members if members.get(key) is not value]
        found += [name for name, owner, key, value in self._others if getattr(owner, key, None) is not value]
        found += [
            f"{name}.{key}"
            for name, (owner, names, is_fully_checked) in self._owners.items()
            if len(vars(owner)) > len(names)  # removed names were found above
            for key in vars(owner).keys() - names
            if (
                shadows(owner, key)
                if is_fully_checked
                else callable(vars(owner)[key]) or isinstance(vars(owner)[key], property)
            )
        ]
        found += [name for name, function, address in self._addresses if bytes(function) != address]
        found += sorted(filter(replaces_reading, registered_operators() - self._operators))
        found += [name for name, hook in find_hooks().items() if hook != self._hooks[name]]
        return list(dict.fromkeys([*found, *self._replaced_in(self._objects)]))

    def replaced_kernels(self) -> list[str]:
        """Names of the torch operators that have other kernels now. Expensive, so not part of `replaced`."""
        now = find_kernels()
        return [name for name, kernels in self._kernels.items() if now[name] != kernels]

    def _replaced_in(self, objects: tuple[object, ...] | None) -> Iterator[str]:
        """Find what objects hold now that may contain foreign code, and methods that were set on single objects."""
        for holder, key, value in self._walk(objects):
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
        # ctypes makes one type for each length of an array. A subclass is another type.
        return isinstance(value, ctypes.Array) and type(value) is ctypes.c_uint64 * len(value)

    def _held(self) -> Iterator[tuple[str, Any, str, Any]]:
        """Find what the objects and their dicts must keep: its dotted name, its holder, its key, and the value."""
        names: dict[int, str] = {}
        for holder, key, value in self._walk(self._objects):
            outer = names.get(id(holder))
            names[id(value)] = name = f"{outer}.{key}" if outer else type(value).__name__
            self._known[id(value)] = value, type(value)
            ours = type(holder) in self._classes and not isinstance(value, _STATE)
            if ours or (type(holder) is dict and callable(value)):
                yield name, holder, key, value

    def _walk(self, objects: tuple[object, ...] | None) -> Iterator[tuple[Any, Any, Any]]:
        """Find all that objects hold, directly or not: the holder, the key, and the value."""
        waiting: list[Any] = [objects]
        while waiting:
            holder = waiting.pop()
            for key, value in self._parts(holder):
                yield holder, key, value
                if type(value) in _PARTS or type(value) in self._classes:
                    waiting.append(value)

    def _parts(self, thing: Any) -> Iterable[tuple[Any, Any]]:
        """The contents of an object of ours or of a container: pairs of a name, key or index and a value."""
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
    """The function that a value is, or that a property, partial or method holds."""
    for key in _AROUND_A_FUNCTION:
        value = getattr(value, key, value)
    return value if isinstance(value, FunctionType) else None
