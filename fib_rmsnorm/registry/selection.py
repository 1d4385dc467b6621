"""Choose records by name, name Workloads, and the main Definition, which a command is about if it names none."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from fnmatch import fnmatch
from pathlib import Path
from shlex import join
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.registry.layout import Layout, list_definitions
from fib_rmsnorm.registry.store import read_toml, write_atomic

if TYPE_CHECKING:
    from fib_rmsnorm.schema import Definition, Solution, Workload

Item = TypeVar("Item")
DEFAULT_DEFINITION = "rmsnorm_d4096"
"""The main Definition where no file of a registry says otherwise."""
BASELINE_AUTHOR = "baseline"
_SHOWN_OF_UUID = 8
_MOST_NAMED = 12  # a longer list of names buries the message


def choose(what: str, items: Iterable[Item], name_of: Callable[[Item], str], patterns: Collection[str]) -> list[Item]:
    """Keep the items whose name matches a glob; no globs keep all items.

    Raises InputError for a glob without a match: a mistyped name must not look like success.
    """
    found = list(items)
    if not patterns:
        return found
    names = sorted({name_of(item) for item in found})
    for pattern in patterns:
        if not any(fnmatch(name, pattern) for name in names):
            raise InputError(f"no {what} matches {pattern!r} ({name_others(pattern, names)})")
    return [item for item in found if any(fnmatch(name_of(item), pattern) for pattern in patterns)]


def name_others(wrong: str, names: Collection[str]) -> str:
    """Suggestions for a wrong name: all names if there are few, else those like it, or the first."""
    if len(names) <= _MOST_NAMED:
        return f"available: {', '.join(names) or 'none'}"
    if close := get_close_matches(wrong, names, n=3):
        return f"similar: {', '.join(close)}; {len(names)} in all"
    return f"available: {', '.join(list(names)[:_MOST_NAMED])}, ...; {len(names)} in all"


def choose_peers(solutions: Iterable[Solution], definitions: Collection[str], glob: str) -> dict[str, Solution]:
    """The one Solution of each Definition that matches a glob, by the Definition's name; some may have none.

    Raises InputError if no Definition has one, or if one has several.
    """
    there = {solution.name: solution for solution in solutions if solution.definition in definitions}
    found: dict[str, list[Solution]] = {}
    for name, solution in there.items():
        if fnmatch(name, glob):
            found.setdefault(solution.definition, []).append(solution)
    for definition, mine in found.items():
        if len(mine) > 1:
            names = ", ".join(solution.name for solution in mine)
            raise InputError(f"--against {glob}: {definition} has several: {names}; choose one")
    if not found:
        raise InputError(
            f"--against {glob}: no Solution of the chosen Definitions matches ({name_others(glob, there)})"
        )
    return {definition: mine[0] for definition, mine in found.items()}


def find_baseline(solutions: Iterable[Solution]) -> Solution | None:
    """The plainest Python Solution by the author `baseline`: it runs on CPUs too, and has the least source code."""

    def plainness(solution: Solution) -> tuple[bool, int, str]:
        size = sum(len(source.content) for source in solution.sources)
        return "cpu" not in solution.spec.target_hardware, size, solution.name

    baselines = (each for each in solutions if each.author == BASELINE_AUTHOR and each.spec.language.value == "python")
    return min(baselines, key=plainness, default=None)


def bench_command(definitions: Collection[str], *options: str, main: str | None = DEFAULT_DEFINITION) -> str:
    """The command that benches one of these Definitions: the `main` one if it is among them, else the first."""
    chosen = _likely(definitions, main)
    return join(["fib-rmsnorm", "bench", *(["--definitions", chosen] if chosen else []), *options])


def creating_command(
    kind: str, definitions: Collection[str], *options: str, main: str | None = DEFAULT_DEFINITION
) -> str:
    """The command that makes the first record of a kind, for one of these Definitions; without any, it defines one."""
    chosen = _likely(definitions, main)
    if chosen is None:
        return join(["fib-rmsnorm", "define", *options])
    if kind == "traces":
        return bench_command([chosen], *options)
    first = ["workload"] if kind == "workloads" else ["new", "triton", "kernel.py"]
    return join(["fib-rmsnorm", *first, "--definition", chosen, *options])


def _likely(definitions: Collection[str], main: str | None) -> str | None:
    return main if main in definitions else min(definitions, default=None)


def operator_of(definition: str) -> str:
    """The part of a Definition's name before the constants: `rmsnorm` in `rmsnorm_d4096`."""
    constants = re.search(r"_[a-z]\d", definition)
    return definition[: constants.start()] if constants else definition


def row_axis(definition: Definition) -> str | None:
    """The axis whose sizes `--batch-sizes` chooses: the first variable one; None if all axes are constant."""
    return next(iter(definition.var_axes), None)


def row_size(axes: Mapping[str, int]) -> int | None:
    """The size of the row axis among the variable axes of a Workload or a Trace; None if it has none."""
    return next(iter(axes.values()), None)


def choose_batches(
    definitions: Sequence[Definition],
    workloads: Mapping[str, list[Workload]],
    sizes: tuple[int, ...],
    named: Collection[str],
) -> tuple[dict[str, list[Workload]], dict[str, tuple[int, ...]]]:
    """Keep the Workloads of these batch sizes; no sizes keep all.

    Args:
        definitions: The Definitions to choose for.
        workloads: The Workloads by their Definition's name.
        sizes: The requested batch sizes.
        named: Names of the Definitions that must have every size. Any other may lack some that another one has.

    Returns:
        The Workloads by their Definition's name, and the sizes that a Definition lacks.

    Raises InputError for a size that a named Definition lacks, or that all Definitions lack.
    """
    found = {definition.name: workloads[definition.name] for definition in definitions}
    if not sizes:
        return found, {}
    rows = {definition.name: row_axis(definition) or "" for definition in definitions}
    there = {name: {workload.axes.get(rows[name]) for workload in mine} for name, mine in found.items()}
    lacking = {name: tuple(size for size in sizes if size not in mine) for name, mine in there.items()}
    lacking = {name: missing for name, missing in lacking.items() if missing}
    must = {name: lacking[name] for name in found if name in named and name in lacking}
    if nowhere := tuple(size for size in sizes if not any(size in mine for mine in there.values())):
        must = must or dict.fromkeys(found, nowhere)
    if must:
        raise InputError(describe_lacking(must))
    chosen = {name: [each for each in mine if each.axes.get(rows[name]) in sizes] for name, mine in found.items()}
    return chosen, lacking


def describe_lacking(lacking: Mapping[str, tuple[int, ...]]) -> str:
    """Say which Definitions lack Workloads of which batch sizes, and how the first gets them."""
    by_size: dict[int, list[str]] = {}
    for name, sizes in lacking.items():
        for size in sizes:
            by_size.setdefault(size, []).append(name)
    missing = "; ".join(f"no Workload of batch {size}: {', '.join(names)}" for size, names in by_size.items())
    first, sizes = next(iter(lacking.items()))
    return f"{missing}; run: fib-rmsnorm workload --definition {first} --batch-sizes {','.join(map(str, sizes))}"


class NamedWorkload(NamedTuple):
    """The parts of a Workload's name."""

    uuid: str
    axes: Mapping[str, int]
    scalars: Mapping[str, float]

    @staticmethod
    def of(workload: Workload) -> NamedWorkload:
        """The name of a Workload, by its record."""
        scalars = {name: given.value for name, given in workload.inputs.items() if given.type == "scalar"}
        return NamedWorkload(workload.uuid, workload.axes, scalars)

    def title(self, *, has_scalars: bool = False, has_uuid: bool = False) -> str:
        """`batch=8`; `batch=8, eps=1e-06, 3f2a9b1c`."""
        parts = [f"{name}={value}" for name, value in self.axes.items()]
        parts += [f"{name}={value:g}" for name, value in self.scalars.items() if has_scalars]
        return ", ".join([*parts, self.uuid[:_SHOWN_OF_UUID]] if has_uuid else parts) or self.uuid


def title_workloads(workloads: Iterable[NamedWorkload]) -> dict[str, str]:
    """A title for each Workload of a Definition that tells it from the others, by uuid."""
    named = {each.uuid: each for each in workloads}
    titles: dict[str, str] = {}
    for has_scalars, has_uuid in ((False, False), (True, False), (True, True)):
        titles = {uuid: each.title(has_scalars=has_scalars, has_uuid=has_uuid) for uuid, each in named.items()}
        if len(set(titles.values())) == len(titles):
            break
    return titles


def title_by_definition(workloads: Iterable[tuple[str, NamedWorkload]]) -> dict[str, dict[str, str]]:
    """The titles of Workloads that come with their Definition's name: by Definition, then by uuid."""
    groups: dict[str, list[NamedWorkload]] = {}
    for definition, workload in workloads:
        groups.setdefault(definition, []).append(workload)
    return {definition: title_workloads(mine) for definition, mine in groups.items()}


def show_name(owner: str, title: str) -> str:
    """A Solution or a Definition on a Workload, as `fib-rmsnorm show` finds it: `rmsnorm_triton_row_v1@batch=8`."""
    return f"{owner}@{title.replace(' ', '')}"


_KEY = "main_definition"
_COMMENT = "# The Definition that commands are about if they name none: the one that `fib-rmsnorm define` made last."


def find_main_definition(root: Path) -> str | None:
    """The Definition that registry.toml names; without the file, the only one, else rmsnorm_d4096 if it is there.

    None if there are others alone. Raises InputError for a faulty registry.toml, and for a name that is not there.
    """
    path = Layout(root).registry_file
    there = list_definitions([root])
    if path.exists() or path.is_symlink():
        name = _read(path)
        if name not in there:
            raise InputError(f"{path}: {_KEY}: no Definition {name!r} ({name_others(name, there)})")
        return name
    if len(there) == 1:
        return there[0]
    return DEFAULT_DEFINITION if DEFAULT_DEFINITION in there else None


def write_main_definition(root: Path, name: str) -> None:
    """Make a Definition the main one. Raises InputError if registry.toml cannot be written."""
    path = Layout(root).registry_file
    with suppress(InputError):
        if _read(path) == name:
            return
    write_atomic(path, f'{_COMMENT}\n{_KEY} = "{name}"\n', root)


def _read(path: Path) -> str:
    found = read_toml(path)
    if unknown := [key for key in found if key != _KEY]:
        raise InputError(f"{path}: unknown key {unknown[0]!r} (available: {_KEY})")
    name = found.get(_KEY)
    if not isinstance(name, str):
        raise InputError(f'{path}: expected {_KEY} = "NAME OF A DEFINITION"')
    return name
