"""Pack sources into Solutions: each `solution.toml`, the files beside it and the shared files that it includes.

Sources win over the JSON that was packed from them earlier: what runs or shows a Solution takes it from `read_current`.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from pydantic import ValidationError

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.languages import LANGUAGES, check_language
from fib_rmsnorm.registry.files.locking import locked
from fib_rmsnorm.registry.files.regular_files import find_files, read_text
from fib_rmsnorm.registry.layout import check_name, list_definitions
from fib_rmsnorm.registry.registry import Registry, index_by_name
from fib_rmsnorm.registry.selection import choose, operator_of
from fib_rmsnorm.registry.sources.manifest import MANIFEST, read_manifest
from fib_rmsnorm.registry.store import describe
from fib_rmsnorm.schema import BuildSpec, Definition, Solution, SourceFile, check_spec

Shared = dict[tuple[str, Path], SourceFile | None]
"""Files that were checked and read, by their path in a Solution and on disk; None for an empty one."""

Wants = Callable[[str, str], bool]
"""Whether to pack the Solution of this name for the Definition of this name; None packs all."""


@dataclass(frozen=True)
class FaultySources:
    """A folder of sources that cannot be packed, and why."""

    author: str
    home: str
    """The Definition of their folder."""
    name: str
    """The name of their Solution for it, to which other Definitions add a suffix."""
    error: InputError

    def may_make(self, glob: str) -> bool:
        """Whether a glob, or a Solution's name, may mean a Solution from these sources."""
        return fnmatch(self.name, glob) or glob.startswith(f"{self.name}_")

    def may_be_among(self, names: Collection[str], definitions: Collection[str], known: Iterable[str]) -> bool:
        """Whether globs of names and of known Definitions, of which none means all, may mean a Solution from these.

        The manifest may name Definitions of other sizes than that of its folder.
        """
        chosen = [name for name in (*known, self.home) if any(fnmatch(name, glob) for glob in definitions)]
        may_serve = not definitions or operator_of(self.home) in map(operator_of, chosen)
        return may_serve and (not names or any(map(self.may_make, names)))


def pack_sound(
    registry: Registry, definitions: dict[str, Definition], wants: Wants | None = None
) -> tuple[dict[str, Solution], list[FaultySources]]:
    """Pack every source folder that can be packed; return the others too. Raises InputError for a name used twice.

    Sources of a Definition whose file cannot be read are neither: what read it has told so.
    """
    faulty = []
    shared: Shared = {}
    unread = {*list_definitions([registry.root])} - definitions.keys()

    def pack() -> Iterator[tuple[Path, Solution]]:
        for path in find_files(registry.layout.solutions, MANIFEST):
            try:
                yield from ((path, each) for each in pack_folder(registry, path.parent, definitions, shared, wants))
            except InputError as error:  # noqa: PERF203 - of one folder
                author, *_ = path.relative_to(registry.layout.solutions).parts
                *_, home, name, _ = path.parts
                if home not in unread:
                    faulty.append(FaultySources(author, home, name, error))

    return index_by_name(pack()), faulty


@dataclass(frozen=True)
class CurrentSolutions:
    """Solutions by name, and how they differ from the packed JSON."""

    by_name: dict[str, Solution]
    unpacked: list[Solution]
    """The Solutions whose JSON is missing, or holds earlier sources."""
    faulty: list[FaultySources]
    """Sources that cannot be packed. What was packed from them earlier is not among the Solutions."""


def read_current(
    registry: Registry, definitions: dict[str, Definition] | None = None, wants: Wants | None = None
) -> CurrentSolutions:
    """Pack a registry's sources in memory, and read the JSON of Solutions without sources.

    `definitions` defaults to the registry's. Raises InputError for a bad file, or a name used twice.
    """
    with locked(reading=[registry.root]):
        made, faulty = pack_sound(registry, registry.definitions() if definitions is None else definitions, wants)
        written = registry.packed_solutions()
    found = {
        name: solution
        for name, solution in written.items()
        if name in made or not any(each.may_make(name) for each in faulty)
    }
    unpacked = [solution for name, solution in made.items() if written.get(name) != solution]
    return CurrentSolutions({**found, **made}, unpacked, faulty)


def pack_chosen(
    registry: Registry,
    known: dict[str, Definition],
    definitions: Collection[str],
    names: Collection[str],
    languages: Collection[str],
) -> tuple[list[Solution], list[FaultySources]]:
    """Pack the sources that globs and the languages choose; return what may be among them but is faulty too.

    Raises InputError for an unknown Definition or language, a name without sources, a name used twice, and as
    `require_packed`.
    """
    chosen = [check_language(each, LANGUAGES) for each in languages or LANGUAGES]
    served = {definition.name for definition in choose("Definition", known.values(), lambda d: d.name, definitions)}
    made, faulty = pack_sound(registry, known)
    packed = [each for each in made.values() if each.spec.language.value in chosen and each.definition in served]
    chooses_all = not (definitions or names or languages)
    require_packed(faulty, names, [solution.name for solution in packed], chooses_all=chooses_all)
    packed = choose("Solution with sources", packed, lambda solution: solution.name, names)
    return packed, [each for each in faulty if each.may_be_among(names, definitions, known)]


def require_packed(
    faulty: Iterable[FaultySources], names: Iterable[str], packed: Collection[str], *, chooses_all: bool = False
) -> None:
    """Raise the error of sources that cannot be packed, if all are chosen or a glob of a name means nothing else."""
    lost = [name for name in names if not any(fnmatch(solution, name) for solution in packed)]
    for each in faulty:
        if chooses_all or any(map(each.may_make, lost)):
            raise each.error


def pack_folder(
    registry: Registry,
    folder: Path,
    definitions: dict[str, Definition],
    shared: Shared | None = None,
    wants: Wants | None = None,
) -> list[Solution]:
    """Pack one source folder into a Solution for each Definition that it serves.

    `shared` has the files that other folders include too, and gets those of this one.

    The Solution of the folder's own Definition has the manifest's name, such as `rmsnorm_triton_row_v1`. Others add
    the constants of their Definition: `rmsnorm_triton_row_v1_d8192_bf16` for `rmsnorm_d8192_bf16`.
    """
    manifest = read_manifest(folder / MANIFEST)
    parts = folder.relative_to(registry.layout.solutions).parts
    if len(parts) != 4:  # author, op_type, definition, solution
        raise InputError(f"{folder}: sources belong in solutions/<author>/<op_type>/<definition>/<solution>/")
    author, _, home, _ = parts
    served = [each for name, each in definitions.items() if manifest.serves(name, home)]
    if not served:
        there, wanted = ", ".join(definitions) or "none", ", ".join(manifest.definitions or [home])
        raise InputError(f"{folder}: no Definition matches {wanted} (available: {there})")
    names = {each.name: check_name(manifest.name + served_suffix(home, each.name), "solution") for each in served}
    served = [each for each in served if wants is None or wants(names[each.name], each.name)]
    if not served:
        return []
    included = find_included(folder, manifest.include, registry.layout.solutions, shared or ())
    sources = read_sources(folder, included, shared)
    return [
        make_solution(folder / MANIFEST, names[each.name], author, each, manifest.spec, sources, manifest.description)
        for each in served
    ]


def served_suffix(home: str, definition: str) -> str:
    """The suffix that a Definition which is not the home of the sources adds to their Solution's name.

    `_d8192_bf16` for `rmsnorm_d8192_bf16`, if the sources are at home in `rmsnorm_d4096`: the operator stands in the
    Solution's name already.
    """
    operator = operator_of(home)
    if definition == home:
        return ""
    return definition.removeprefix(operator) if definition.startswith(f"{operator}_") else f"_{definition}"


def make_solution(
    place: Path,
    name: str,
    author: str,
    definition: Definition,
    spec: BuildSpec,
    sources: list[SourceFile],
    description: str | None = None,
) -> Solution:
    """Make a Solution of a Definition. Raises InputError that names the `place` at fault."""
    try:
        check_spec(spec, definition)
        return Solution(
            name=name, definition=definition.name, author=author, spec=spec, sources=sources, description=description
        )
    except ValueError as error:
        raise InputError(f"{place}: {describe(error) if isinstance(error, ValidationError) else error}") from None


def read_sources(folder: Path, included: dict[str, Path], shared: Shared | None = None) -> list[SourceFile]:
    """Read a folder's files, and those that `find_included` has found, sorted by their paths in the Solution.

    Skip the manifest, hidden files, caches, and empty files, which the schema refuses. `shared` as in `pack_folder`.
    """
    shared = {} if shared is None else shared
    depth = len(folder.parts)
    files = {path.parts[depth:]: path for path in find_files(folder, "*")}
    found = []
    for parts, path in sorted((files | {(name,): path for name, path in included.items()}).items()):
        name = "/".join(parts)
        if name == MANIFEST or any(part == "__pycache__" or part.startswith(".") for part in parts):
            continue
        if (name, path) not in shared:
            shared[name, path] = _read_source(name, path)
        if source := shared[name, path]:
            found.append(source)
    if not found:
        raise InputError(f"{folder}: no sources beside {MANIFEST}")
    return found


def _read_source(name: str, path: Path) -> SourceFile | None:
    if path.is_symlink():
        raise InputError(f"{path}: is a link; sources must be regular files in their folder")
    if ".json" in (Path(part).suffix for part in name.split("/")):
        raise InputError(f"{path}: sources cannot be JSON: flashinfer-bench would read the file as a Solution")
    content = read_text(path)
    return SourceFile(path=name, content=content) if content.strip() else None


def find_included(
    folder: Path, include: list[str], solutions: Path, shared: Collection[tuple[str, Path]] = ()
) -> dict[str, Path]:
    """Find the files that the folder's manifest includes, by their names in the Solution.

    An included file is packed under its own name, as if it lay in the folder. Sources and shared files therefore find
    each other by plain names, and a file can become shared without changing a Solution. Raises InputError for a file
    that is missing or a link, or whose name is taken. `shared` as in `pack_folder`: those in it were found before.
    """
    found: dict[str, Path] = {}
    manifest = folder / MANIFEST
    own = {path.name for path in folder.iterdir() if path.exists()}
    for path in include:
        file, name = solutions / path, path.rpartition("/")[2]
        where = f"{manifest}: include: {path!r}"
        if name in found:
            other = found[name].relative_to(solutions).as_posix()
            raise InputError(f"{where} and {other!r} would both be packed as {name!r}")
        if name in own:
            raise InputError(f"{where} would be packed as {name!r}, which already exists in the folder")
        if (name, file) not in shared:
            if not file.is_file():
                raise InputError(f"{where}: no such file in {solutions}")
            if any(each.is_symlink() for each in (file, *file.parents[: path.count("/")])):
                raise InputError(f"{where}: is a link; included files must be regular files inside {solutions}")
        found[name] = file
    return found
