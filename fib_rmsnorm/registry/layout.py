"""Where everything lies in a registry: all rules on paths and names, and nothing else.

A registry is a FlashInfer Trace dataset whose Solutions' sources lie beside what is packed from them.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from fib_rmsnorm.errors import InputError

ROOT_VARIABLE = "FIB_RMSNORM_ROOT"
FOLDERS = ("definitions", "solutions", "workloads", "traces")
PUBLISHED = "published"
"""Stands in an author's place under traces/, for Traces of all authors that come with the registry. No command writes
there, so nothing that somebody benches changes them."""
TUNING = "tuning"
"""Beside the dataset, whose loaders do not look there."""

_SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")


def check_name(name: str, what: str) -> str:
    """Return `name` if it can be one component of a path; names come from files and are not to be trusted.

    Raises InputError otherwise, so nothing is ever written outside a registry's folders.
    """
    if not _SAFE_NAME.fullmatch(name) or len(name) > 200:
        raise InputError(f"{what} {name!r} is not a safe name: use letters, digits, '.', '_', '+' and '-', at most 200")
    return name


@dataclass(frozen=True)
class Layout:
    """The paths of a registry rooted at `root`."""

    root: Path

    @property
    def definitions(self) -> Path:
        """Folder of Definitions."""
        return self.root / "definitions"

    @property
    def solutions(self) -> Path:
        """Folder of Solutions and their sources."""
        return self.root / "solutions"

    @property
    def workloads(self) -> Path:
        """Folder of Workloads."""
        return self.root / "workloads"

    @property
    def traces(self) -> Path:
        """Folder of Traces."""
        return self.root / "traces"

    @property
    def published(self) -> Path:
        """Folder of the Traces that come with the registry."""
        return self.traces / PUBLISHED

    def definition(self, op_type: str, name: str) -> Path:
        """Path of a Definition's JSON."""
        return self.definitions / check_name(op_type, "op_type") / f"{check_name(name, 'definition')}.json"

    def solution(self, author: str, op_type: str, definition: str, name: str) -> Path:
        """Path of a packed Solution's JSON."""
        return self._by_author(self.solutions, author, op_type, definition) / (f"{check_name(name, 'solution')}.json")

    def workload_file(self, op_type: str, definition: str) -> Path:
        """Path of a Definition's Workloads."""
        return _records_file(self.workloads, op_type, definition)

    def trace_file(self, author: str, op_type: str, definition: str) -> Path:
        """Path of the Traces of one author's Solutions for a Definition."""
        folder = self._by_author(self.traces, author, op_type, definition)
        return folder.with_name(f"{folder.name}.jsonl")  # with_suffix would cut a name at its last dot

    def published_file(self, op_type: str, definition: str) -> Path:
        """Path of the published Traces of a Definition."""
        return _records_file(self.published, op_type, definition)

    def tuning_file(self, author: str, op_type: str, definition: str, name: str) -> Path:
        """Path of the Traces of what `tune` tried."""
        folder = self._by_author(self.root / TUNING, author, op_type, definition)
        return folder / f"{check_name(name, 'solution')}.jsonl"

    def tuning_files(self, author: str, name: str) -> list[Path]:
        """Those that there are, each in a folder named for its Definition."""
        return sorted(self.root.glob(f"{TUNING}/{author}/*/*/{check_name(name, 'solution')}.jsonl"))

    def _by_author(self, folder: Path, author: str, op_type: str, definition: str) -> Path:
        if author == PUBLISHED:
            raise InputError(
                f"no author can be named {PUBLISHED!r}: traces/{PUBLISHED}/ holds the Traces of all authors"
            )
        return (
            folder
            / check_name(author, "author")
            / check_name(op_type, "op_type")
            / check_name(definition, "definition")
        )


def _records_file(folder: Path, op_type: str, definition: str) -> Path:
    return folder / check_name(op_type, "op_type") / f"{check_name(definition, 'definition')}.jsonl"


def is_registry(folder: Path) -> bool:
    """Whether `folder` is the root of a registry: it holds definitions/ and solutions/."""
    return (folder / "definitions").is_dir() and (folder / "solutions").is_dir()


def follow_links(path: Path) -> Path:
    """What `path` means in the end; unlike Path.resolve it raises nothing for links in a circle."""
    return Path(os.path.realpath(path))


def find_root(given: Path | None = None) -> Path:
    """Find the registry's root: `given`, else $FIB_RMSNORM_ROOT, else from the working folder upward, like git.

    Raises InputError if there is none; nothing is ever created here.
    """
    named = given or (Path(value) if (value := os.environ.get(ROOT_VARIABLE)) else None)
    if named is not None:
        if named.exists() and not named.is_dir():
            raise InputError(f"{named} is no folder, and so no registry")
        if not named.is_dir():
            raise InputError(f"no such folder: {named} (make a registry with: fib-rmsnorm init {named})")
        if not is_registry(named):
            raise InputError(f"{named} is no registry: it lacks definitions/ or solutions/")
        return named.resolve()
    here = Path.cwd()
    for folder in (here, *here.parents):
        if is_registry(folder):
            return folder
    raise InputError(f"no registry in {here} or above it: cd into one, pass --root, or run: fib-rmsnorm init DIR")
