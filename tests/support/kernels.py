"""The kernels of tests/wrong_kernels/ and tests/honest_kernels/, as Solutions.

A kernel is a file, or a folder of files with an `entry` among them; its name is the file's or the folder's. The
kernels.toml beside it has a table for each kernel of the group: `description`, what a test expects of it, and what its
source does not tell as `try` reads it: `target_hardware`, `strided`, or the whole `spec` of one that cannot be read. A
table with `of` is that other kernel, whose source tells the same, with `changes` (old and new text in turn), or with
code that `run` does `first`; what its file does, if it has one, comes before.
"""

import importlib.util
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from fib_rmsnorm.operators import RmsNorm
from fib_rmsnorm.registry import Registry
from fib_rmsnorm.registry.sources.draft import draft_solution
from fib_rmsnorm.registry.sources.kernel_file import KernelFile
from fib_rmsnorm.registry.sources.packing import read_sources
from fib_rmsnorm.registry.store import read_toml
from fib_rmsnorm.schema import BuildSpec, Definition, Solution, SourceFile
from support.paths import REPOSITORY, TESTS

DEFINITION = RmsNorm().define(4096)
TABLES = "kernels.toml"
BATCH_SIZES_ON_CUDA = (1, 128)
"""Outputs of 128 rows are handed over in the GPU's memory, those of fewer in a file."""
HAS_TILELANG = importlib.util.find_spec("tilelang") is not None
SOURCE_KEYS = {"changes", "description", "entry", "first", "of", "spec", "strided", "target_hardware"}


@dataclass(frozen=True)
class Kernel:
    """A wrong or an honest kernel, with its table."""

    name: str
    kind: str
    guard: str
    """What finds a wrong kernel: a guard of docs/cheats.md."""
    path: Path | None
    table: Mapping[str, Any]

    @property
    def description(self) -> str:
        return self.table["description"]

    @property
    def expected(self) -> dict[str, Any]:
        """What its table says besides what it is."""
        return {key: value for key, value in self.table.items() if key not in SOURCE_KEYS}

    @property
    def language(self) -> str:
        return self.spec.language.value

    @property
    def target_hardware(self) -> list[str]:
        return self.spec.target_hardware

    @cached_property
    def spec(self) -> BuildSpec:
        if "spec" in self.table:
            return BuildSpec.model_validate(self.table["spec"])
        if "of" in self.table:
            file = _find_file(self.table["of"])
        else:
            file = self.path if self.path.is_file() else self.path / self._entry
        read = draft_solution(Registry(REPOSITORY), KernelFile(file), DEFINITION).spec
        hardware = self.table.get("target_hardware", read.target_hardware)
        update = {"entry_point": f"{self._entry}::run", "target_hardware": hardware}
        return read.model_copy(update={**update, "strided": self.table.get("strided", False)})

    @property
    def _entry(self) -> str:
        """The entry file's path in the Solution."""
        # Not the file's own name: what a Python file is called hides a module of that name from it.
        return self.table.get("entry", f"kernel{self.path.suffix if self.path else '.py'}")

    @property
    def _sources(self) -> list[SourceFile]:
        if self.path and self.path.is_dir():
            return read_sources(self.path, {})
        return [SourceFile(path=self._entry, content=self.text), *shared_sources(self.text)]

    @property
    def text(self) -> str:
        """Its source, if it is one file."""
        if "of" not in self.table:
            return self.path.read_text()
        text = change(_find_file(self.table["of"]).read_text(), *self.table.get("changes", ()))
        if first := self.table.get("first"):
            text = re.sub(r"^def run\(.*\n", lambda found: f"{found[0]}    {first}\n", text, flags=re.MULTILINE)
        return f"{self.path.read_text()}\n\n{text}" if self.path else text

    def solution(self, definition: Definition) -> Solution:
        return Solution(
            name=f"{self.kind}_{self.language}_{self.name}",
            definition=definition.name,
            author=f"{self.kind}_kernels",
            description=self.description,
            spec=self.spec,
            sources=self._sources,
        )


def change(text: str, *changes: str) -> str:
    """The text with changes: old and new text in turn."""
    for old, new in zip(changes[::2], changes[1::2], strict=True):
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def shared_sources(text: str) -> list[SourceFile]:
    """The files of tests/wrong_kernels/ that a source imports or includes, and those that they need."""
    names = [f"{name}.py" for name in re.findall(r"^from \.(\w+) import ", text, re.MULTILINE)]
    names += re.findall(r'^#include "(\w+\.\w+)"', text, re.MULTILINE)
    found: dict[str, SourceFile] = {}
    for name in names:
        content = (TESTS / "wrong_kernels" / name).read_text()
        for source in (SourceFile(path=name, content=content), *shared_sources(content)):
            found[source.path] = source
    return [*found.values()]


def read_kernels(kind: str) -> dict[str, Kernel]:
    """All kernels of one kind, `wrong` or `honest`, by name. Every kernel has a table, and every table a kernel."""
    root = TESTS / f"{kind}_kernels"
    found: dict[str, Kernel] = {}
    for path in sorted(root.rglob(TABLES)):
        content = read_toml(path)
        tables = {name: value for name, value in content.items() if isinstance(value, dict)}
        defaults = {name: value for name, value in content.items() if name not in tables}
        files = {file.stem: file for file in path.parent.glob("[!._]*") if file.name != TABLES}
        files |= {name: None for name, table in tables.items() if "of" in table and name not in files}
        guard = path.relative_to(root).parts[0].replace("_", " ")
        assert files.keys() == tables.keys(), f"{path}: {files.keys() ^ tables.keys()}"
        assert not files.keys() & found.keys(), f"{path}: {files.keys() & found.keys()} are elsewhere too"
        found |= {name: Kernel(name, kind, guard, files[name], {**defaults, **tables[name]}) for name in sorted(files)}
    return dict(sorted(found.items()))


def made_for(device: str, kernels: Mapping[str, Kernel]) -> list[str]:
    """The names of those that run there."""
    return [
        name
        for name, kernel in kernels.items()
        if device in kernel.target_hardware and (HAS_TILELANG or kernel.language != "tilelang")
    ]


def list_cases(runs: Mapping[str, tuple[Sequence[str], str, Sequence[int], Any]]) -> list[Any]:
    """The parameters of a test of each kernel of each run and batch."""
    import pytest  # experiments need the rest of this module, but not pytest

    return [
        pytest.param(run, name, batch, marks=marks, id=f"{name}-{batch}-{run}")
        for run, (names, _, batches, marks) in runs.items()
        for name in names
        for batch in batches
    ]


def _find_file(name: str) -> Path:
    (found,) = (file for file in TESTS.glob(f"*_kernels/**/{name}.*") if file.suffix != ".pyc")
    return found


def add_kernels(registry: Registry, kernels: Iterable[Kernel]) -> dict[str, Solution]:
    """Write the kernels' Solutions into a registry, and return them by the kernels' names."""
    definition = registry.definition(DEFINITION.name)
    solutions = {kernel.name: kernel.solution(definition) for kernel in kernels}
    for solution in solutions.values():
        registry.write_solution(solution, definition.op_type)
    return solutions
