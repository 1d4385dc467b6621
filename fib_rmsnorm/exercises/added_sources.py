"""Source that the grader adds to a student's file, to see what its output depends on."""

from __future__ import annotations

NO_LAUNCHES = """

import sys as _sys


class _NoLaunch:
    def __getitem__(self, grid):
        return self

    def __call__(self, *arguments, **options):
        return self


# Triton's kernels by their classes, so wherever the file keeps them.
for _module, _class in (("triton.runtime.jit", "JITFunction"), ("triton.runtime.interpreter", "InterpretedFunction")):
    if _module in _sys.modules:
        getattr(_sys.modules[_module], _class).run = _NoLaunch()
for _name, _value in list(globals().items()):
    if type(_value).__module__.startswith("tilelang.") and callable(_value):  # @tilelang.jit
        globals()[_name] = _NoLaunch()
    elif getattr(_value, "__name__", "") in ("tilelang", "cutlass.cute"):  # modules whose compile() makes kernels
        _value.compile = _NoLaunch()
"""
"""All launches do nothing."""

_MOVES = (
    *("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"),
    *("zeros", "zeros_like", "new_zeros", "ones", "ones_like", "new_ones", "full", "full_like", "new_full"),
    *("zero_", "fill_", "copy_", "_to_copy", "clone", "detach", "alias", "lift_fresh", "set_"),
    *("view", "_unsafe_view", "_reshape_alias", "as_strided", "t", "transpose", "permute", "expand"),
    *("slice", "select", "unsqueeze", "squeeze", "split", "unbind"),
)
"""Operators of torch that allocate, fill, copy or view, and compute nothing."""
_REFUSAL = "refused while it is graded"
_NO_ARITHMETIC = """

import functools as _functools

from torch.utils._python_dispatch import TorchDispatchMode as _TorchDispatchMode


class _NoArithmetic(_TorchDispatchMode):
    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        name = operator.overloadpacket.__name__
        if name not in {moves!r}:
            raise RuntimeError(f"torch.{{name}} is {refusal}")
        return operator(*args, **(kwargs or {{}}))


def _without_arithmetic(judged):
    @_functools.wraps(judged)
    def call(*arguments):
        with _NoArithmetic():
            return judged(*arguments)

    return call


{entry} = _without_arithmetic({entry})
"""


def refuse_arithmetic(entry: str) -> str:
    """Source with which a call of this function fails as soon as torch computes anything in it."""
    return _NO_ARITHMETIC.format(moves=_MOVES, refusal=_REFUSAL, entry=entry)


def find_refused(log: str) -> str | None:
    """The first operator that was refused, by the log of a failed call; None if it failed otherwise."""
    before, refused, _ = log.partition(f" is {_REFUSAL}")
    return before.split()[-1] if refused else None
