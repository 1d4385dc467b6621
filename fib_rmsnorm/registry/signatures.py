"""The inputs and outputs of a Definition by name, from its file alone. The schema reads all of it, and needs torch."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.registry.files.regular_files import find_files, read_bytes
from fib_rmsnorm.registry.layout import Layout


@dataclass(frozen=True)
class Signature:
    """A Definition's inputs and outputs, which are the parameters of its kernels."""

    definition: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    shapes: Mapping[str, tuple[str, ...]]
    """The axes of each input and output that is a tensor; the others are numbers."""
    constants: tuple[int, ...]
    """The sizes of the constant axes."""

    def is_number(self, name: str) -> bool:
        """Whether an input is a number."""
        return name not in self.shapes


def make_signature(record: Mapping[str, Any]) -> Signature:
    """Make the signature of a Definition from its JSON."""
    tensors = {**record["inputs"], **record["outputs"]}
    return Signature(
        str(record["name"]),
        tuple(record["inputs"].keys()),
        tuple(record["outputs"].keys()),
        {name: tuple(spec["shape"]) for name, spec in tensors.items() if spec["shape"] is not None},
        tuple(int(axis["value"]) for axis in record["axes"].values() if axis["type"] == "const"),
    )


def read_signature(layout: Layout, name: str) -> Signature | None:
    """Find a Definition's signature; None if a faulty file may hold it, which `Registry.definition` reports.

    Raises InputError with the known names if no file holds it.
    """
    read = [_read(path, layout.root) for path in find_files(layout.definitions, "*.json")]
    found = {signature.definition: signature for signature in read if signature}
    if name not in found and all(read):
        raise unknown_definition(name, found, layout.root)
    return found.get(name)


def _read(path: Path, root: Path) -> Signature | None:
    with suppress(InputError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return make_signature(json.loads(read_bytes(path, root)))
    return None


def unknown_definition(name: str, known: Iterable[str], root: Path) -> InputError:
    """Make an error that says which Definitions there are."""
    return InputError(f"no Definition {name!r} in {root} (available: {', '.join(known) or 'none'})")
