"""Choose the Definition that a kernel is for, where its user names none."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.registry.registry import Registry
from fib_rmsnorm.registry.selection import DEFAULT_DEFINITION, operator_of
from fib_rmsnorm.registry.sources.kernel_source import find_source
from fib_rmsnorm.registry.sources.parameters import make_signature


def choose_definition(
    registry: Registry,
    path: Path,
    entry: str | None = None,
    style: bool | None = None,
    *,
    name: str = "",
    is_filed: bool = False,
) -> str:
    """The name of the Definition that the parameters of a kernel's file fit; of a folder, the one that it lies in.

    Of several, those whose names the parameters have; of these, the one whose operator `name` or the file's name tells;
    else the default one, but not if the kernel `is_filed` under it. If none fits, the default one, whose error says
    what is wrong. Raises InputError that names those that fit if nothing decides.
    """
    definitions = registry.definitions()
    if path.is_dir():
        home = path.resolve().parent.name
        return home if home in definitions else DEFAULT_DEFINITION
    signatures = [make_signature(each) for each in definitions.values()]
    sources = [(each, source) for each in signatures if (source := find_source(path, each, entry, style))]
    if not sources:
        return next(iter(definitions)) if len(definitions) == 1 else DEFAULT_DEFINITION
    same = [each for each, source in sources if source.has_names_of(each)]
    fitting = [each.definition for each in same or [each for each, _ in sources]]
    told = find_named((name, path.stem), fitting)
    wanted = told or fitting
    if DEFAULT_DEFINITION in wanted and (told or not is_filed):
        return DEFAULT_DEFINITION
    if len(wanted) > 1:
        raise InputError(
            f"{path}: its parameters fit several Definitions; choose with --definition {' or '.join(wanted)}"
        )
    return wanted[0]


def find_named(names: Iterable[str], definitions: Iterable[str]) -> list[str]:
    """Those of the Definitions whose operator the first name tells that tells any: `layernorm` for `layernorm_mine_v1`.

    The longest operator counts: `rmsnorm_gemma_triton_v1` tells nothing of `rmsnorm`.
    """
    by_operator: dict[str, list[str]] = {}
    for definition in definitions:
        by_operator.setdefault(operator_of(definition), []).append(definition)
    for name in names:
        words = f"_{name.lower().replace('-', '_')}_"
        told = [operator for operator in by_operator if f"_{operator}_" in words]
        if told:
            return by_operator[max(told, key=len)]
    return []
