"""The layout of a registry: all rules for paths and names.

A registry is a FlashInfer Trace dataset in which the sources of Solutions lie beside the packed Solutions.
"""

import os
import re
from collections.abc import Iterable
from pathlib import Path
from shlex import join

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.registry.files.regular_files import find_files

ROOT_VARIABLE = "FIB_RMSNORM_ROOT"
FOLDERS = ("definitions", "solutions", "workloads", "traces")
PUBLISHED = "published"
"""The folder under traces/, beside the authors' folders, of the Traces that come with the registry, by all authors.
No command writes there, so a user's bench does not change it."""
TUNING = "tuning"
"""The folder of tuning Traces, outside the folders that dataset loaders read."""

_SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")


def is_safe_name(name: str) -> bool:
    """Whether `name` can be one component of a path and leads nowhere else."""
    return bool(_SAFE_NAME.fullmatch(name)) and len(name) <= 200


def check_name(name: str, what: str) -> str:
    """Return `name` if it can be one component of a path. Names come from files that are not trusted.

    Raises InputError otherwise, so that nothing is ever written outside a registry's folders.
    """
    if not is_safe_name(name):
        raise InputError(f"{what} {name!r} is not a safe name: use at most 200 letters, digits, '.', '_', '+' and '-'")
    return name


class Layout:
    """The paths of a registry rooted at `root`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.definitions = root / "definitions"
        self.solutions = root / "solutions"
        """Solutions and their sources."""
        self.workloads = root / "workloads"
        self.traces = root / "traces"
        self.published = self.traces / PUBLISHED
        """The Traces that come with the registry."""
        self.registry_file = root / "registry.toml"
        """Names the main Definition."""
        self.winners = root / "winners.json"
        """The table by which a model's norms choose their kernels."""

    def definition(self, op_type: str, name: str) -> Path:
        """Path of a Definition's JSON."""
        return _file(self.definitions, ".json", op_type=op_type, definition=name)

    def solution(self, author: str, op_type: str, definition: str, name: str) -> Path:
        """Path of a packed Solution's JSON."""
        return _file(self.solutions, ".json", author=author, op_type=op_type, definition=definition, solution=name)

    def packed_files(self) -> list[Path]:
        """Existing files of packed Solutions: JSON without a solution.toml beside it or in a folder above it."""
        paths, depth = find_files(self.solutions, "*.json"), len(self.solutions.parts)

        def is_source(folder: Path) -> bool:
            above = folder.parents[: len(folder.parts) - depth]
            return any((each / "solution.toml").exists() for each in (folder, *above))

        packed = {folder for folder in {path.parent for path in paths} if not is_source(folder)}
        return [path for path in paths if path.parent in packed]

    def workload_file(self, op_type: str, definition: str) -> Path:
        """Path of a Definition's Workloads."""
        return _file(self.workloads, ".jsonl", op_type=op_type, definition=definition)

    def trace_file(self, author: str, op_type: str, definition: str) -> Path:
        """Path of the Traces of one author's Solutions for a Definition."""
        return _file(self.traces, ".jsonl", author=author, op_type=op_type, definition=definition)

    def published_file(self, op_type: str, definition: str) -> Path:
        """Path of the published Traces of a Definition."""
        return _file(self.published, ".jsonl", op_type=op_type, definition=definition)

    def tuning_file(self, author: str, op_type: str, definition: str, name: str) -> Path:
        """Path of the Traces that `tune` measured."""
        folder = self.root / TUNING
        return _file(folder, ".jsonl", author=author, op_type=op_type, definition=definition, solution=name)

    def tuning_files(self, author: str, name: str) -> list[Path]:
        """Existing files of tuning Traces, each in a folder named after its Definition."""
        return sorted(self.root.glob(f"{TUNING}/{author}/*/*/{check_name(name, 'solution')}.jsonl"))


def _file(folder: Path, suffix: str, **names: str) -> Path:
    """A file below `folder`; the last name is its own, and those before it are its folders'."""
    if names.get("author") == PUBLISHED:
        raise InputError(f"an author cannot be named {PUBLISHED!r}: traces/{PUBLISHED}/ holds Traces of all authors")
    *folders, name = (check_name(name, what) for what, name in names.items())
    return folder.joinpath(*folders, name + suffix)


def is_registry(folder: Path) -> bool:
    """Whether `folder` is the root of a registry: it holds a Definition in definitions/, or solutions/ beside it."""
    definitions = folder / "definitions"
    return definitions.is_dir() and ((folder / "solutions").is_dir() or any(definitions.rglob("*.json")))


def find_registry_around(folder: Path) -> Path | None:
    """The root of the registry in which a folder lies, or that it is; None if it lies in none."""
    return next((each for each in (folder, *folder.parents) if is_registry(each)), None)


def registry_folder_of(path: Path) -> Path | None:
    """The folder of a registry that holds its records, and in which `path` lies; None if it lies in none."""
    for root in path.parents:
        folder = root / path.relative_to(root).parts[0]
        if folder.name in (*FOLDERS, TUNING) and is_registry(root):
            return folder
    return None


def list_definitions(roots: Iterable[Path]) -> list[str]:
    """The names of the Definitions of these registries, by their files, of which none is read."""
    return sorted({path.stem for root in roots for path in Layout(root).definitions.rglob("*.json")})


TraceFile = tuple[Path, Path | None]
"""A file to read, and the root of a dataset, out of which it must not lead."""


def list_trace_files(source: Path) -> list[TraceFile]:
    """The files of Traces to read: `source`, or those in the folder; a dataset's are under `traces/`."""
    if source.is_file():
        return [(source, None)]
    if not source.is_dir():
        if source.exists():
            raise InputError(f"{source}: is not a regular file; write what it holds to a file first")
        raise InputError(f"no such file or folder: {source}")
    is_dataset = (source / "traces").is_dir()
    if not is_dataset and (source / "definitions").is_dir():
        return []  # a dataset without Traces; its other files hold none
    found = find_files(source / "traces" if is_dataset else source, "*.json*")
    root = source if is_dataset else None
    # What is a folder here is a link to one: reading it reports the link.
    return [(path, root) for path in found if (is_dataset if path.is_dir() else path.suffix in (".json", ".jsonl"))]


def follow_links(path: Path) -> Path:
    """Resolve all links of `path`; unlike Path.resolve, do not raise for a cycle of links."""
    return Path(os.path.realpath(path))


def find_root(given: Path | None = None) -> Path:
    """Find the registry's root: `given`, else $FIB_RMSNORM_ROOT, else the nearest from the working folder upward.

    Raises InputError if there is none; creates nothing.
    """
    named = given or (Path(value) if (value := os.environ.get(ROOT_VARIABLE)) else None)
    if named is not None:
        if named.exists() and not named.is_dir():
            raise InputError(f"not a registry: {named} is not a folder")
        if not named.is_dir():
            create = join(["fib-rmsnorm", "init", str(named)])
            raise InputError(f"no such folder: {named}; to create a registry there, run: {create}")
        if not is_registry(named):
            raise InputError(f"not a registry: {named} has no Definition in definitions/")
        return named.resolve()
    if found := find_registry_around(Path.cwd()):
        return found
    raise InputError(
        f"no registry in {Path.cwd()} or above it: cd into one, give its folder, or run: fib-rmsnorm init DIR"
    )


def find_roots(files: Iterable[TraceFile], sources: list[Path], root: Path | None) -> list[Path]:
    """The datasets around the files and folders, else the registry found from here, if any."""
    starts = {path.resolve().parent for path, _ in files} | {each.resolve() for each in sources if each.is_dir()}
    roots = dict.fromkeys(filter(None, map(find_registry_around, sorted(starts))))
    if not roots or root is not None:
        try:
            roots.setdefault(find_root(root))
        except InputError:
            if root is not None:
                raise
    return list(roots)
