"""Outputs that a call writes to the memory of an input, which a Definition cannot tell and a Solution declares."""

from __future__ import annotations

from collections.abc import Mapping

from fib_rmsnorm.schema.definition import Definition


def check_in_place(in_place: Mapping[str, str], definition: Definition) -> None:
    """Raise ValueError unless each output in `in_place` and its input have one shape and dtype in the Definition."""
    for output, source in in_place.items():
        for name, group, specs in (
            (output, "output", definition.outputs),
            (source, "input", definition.inputs),
        ):
            if name not in specs:
                raise ValueError(f"in_place: {definition.name} has no {group} {name!r} (available: {', '.join(specs)})")
        written, read = definition.outputs[output], definition.inputs[source]
        if read.shape is None or (written.shape, written.dtype) != (read.shape, read.dtype):
            raise ValueError(f"in_place: {output!r} and {source!r} differ in shape or dtype in {definition.name}")
