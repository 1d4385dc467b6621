"""torch.compile as a fair peer: each set of shapes, dtypes and numbers gets a kernel of its own.

With dynamic=False, Inductor knows the batch: it can split the reduction of a single row and choose tile sizes for
many. A dynamic batch would compile twice at most, but keep the choices made for the first batch. The price is a
compilation for each new batch.
"""

import functools
import types

import torch


def compile_per_shape(function, **options):
    """Return what calls `function` compiled for the shapes, dtypes, devices and numbers that it is called with.

    `options` are Inductor's.
    """

    @functools.cache
    def compiled(*key):
        # Dynamo gives up after 8 recompilations of one code object, so each key compiles a copy of the code.
        copy = types.FunctionType(function.__code__.replace(), function.__globals__)
        return torch.compile(copy, fullgraph=True, dynamic=False, options=options or None)

    def call(*arguments):
        key = [(each.shape, each.dtype, each.device) if isinstance(each, torch.Tensor) else each for each in arguments]
        return compiled(*key)(*arguments)

    return call
