"""A kernel to judge: its file, folder or text, what its source does not say, and the Definition that it is for."""

import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

from fib_rmsnorm.errors import InputError, blaming_kernel
from fib_rmsnorm.languages import KERNEL_LANGUAGES, check_language
from fib_rmsnorm.registry.files.regular_files import read_text
from fib_rmsnorm.registry.registry import Registry
from fib_rmsnorm.registry.selection import name_others
from fib_rmsnorm.registry.sources.manifest import MANIFEST, read_manifest
from fib_rmsnorm.schema import Definition

_LINE = re.compile(r"\s*(?:#|//)\s*definition:\s*(\S+)\s*")
_FIRST_LINES = 20
"""The lines of a file that may name its Definition: a licence may stand above."""


@dataclass(frozen=True)
class KernelFile:
    """A kernel's file, or its folder with a solution.toml, and what its source does not say."""

    file: Path
    definition: str | None = None
    """The Definition that it is for; None for the one that its author names, else the registry's main one."""
    call: str | None = None
    """The function to call, or an expression that calls it; None for the one that `try` would choose."""
    strided: bool = False
    """Whether it takes rows at any stride, and is judged on such rows too."""

    @cached_property
    def text(self) -> str:
        """The text of the file, read once. Raises KernelError if it cannot be read as text."""
        with blaming_kernel():
            return read_text(self.file)

    @classmethod
    def locate(cls, path: Path, call: str | None = None, **given: Any) -> "KernelFile":
        """The kernel that a user names: a path, `FILE::name` or `package.module:name`.

        The module is looked for from the working folder, then among what is installed, and nothing of it runs. Raises
        InputError for a module that is not there, or if `call` says what to call too.
        """
        named = re.fullmatch(r"(?:(.+)::|([^\W\d]\w*(?:\.[^\W\d]\w*)*):)([^\W\d]\w*)", str(path))
        if named is None or path.exists():
            return cls(path, call=call, **given)
        if call is not None:
            raise InputError(f"{path} names what to call: leave out --call {call!r}, or name the file")
        if named[1]:
            return cls(Path(named[1]), call=named[3], **given)
        module = Path(*named[2].split("."))
        for folder, end in product((Path(), *map(Path, sys.path)), (".py", "/__init__.py")):
            if (file := folder / f"{module}{end}").is_file():
                return cls(file, call=named[3], **given)
        raise InputError(f"{path}: no module {named[2]!r} in the working folder, and none installed ({module}.py)")


@contextmanager
def text_as_file(text: str, language: str, kernel: KernelFile = KernelFile(Path())) -> Iterator[KernelFile]:
    """A kernel's text as a file while it is read, else as `kernel` says; messages name the file without its folder.

    Raises InputError for an unknown language.
    """
    suffix = KERNEL_LANGUAGES[check_language(language, KERNEL_LANGUAGES)].suffixes[0]
    with tempfile.TemporaryDirectory(prefix="fib-rmsnorm-") as folder:
        file = Path(folder, f"kernel{suffix}")
        file.write_text(text, encoding="utf-8", errors="surrogatepass")
        try:
            yield replace(kernel, file=file)
        except InputError as error:
            raise type(error)(str(error).replace(f"{folder}/", ""), error.paste) from None


def choose_definition(registry: Registry, kernel: KernelFile) -> Definition:
    """The Definition that a kernel is judged by: its user's, else the one that its author names, else the main one.

    Neither a file's name nor its parameters choose it: a kernel would pass by a Definition that its author did not
    mean. Raises InputError if it is not in the registry, or if nothing tells which of several is meant.
    """
    if kernel.definition is not None:
        return registry.definition(kernel.definition)
    definitions, main = registry.definitions(), registry.main_definition
    names = named_definitions(registry, kernel, definitions) or [*definitions]
    if main not in names and len(names) != 1:
        what = f"nothing says for which Definition it is; choose with --definition ({name_others('', names)})"
        raise InputError(f"{kernel.file}: {what}")
    return definitions[main if main in names else names[0]]


def named_definitions(registry: Registry, kernel: KernelFile, definitions: dict[str, Definition]) -> list[str]:
    """The Definitions that a kernel's author names; none if nothing does.

    A line of the file, such as `# definition: layernorm_d4096`; else `definitions` in the solution.toml of its folder,
    of which the one that the folder lies in comes before the others; else the one that the folder lies in. Raises
    InputError for a name that the registry's `definitions` lack.
    """
    path = kernel.file
    lines = kernel.text.splitlines()[:_FIRST_LINES] if path.is_file() else []
    for number, line in enumerate(lines, 1):
        if found := _LINE.fullmatch(line):
            if found[1] not in definitions:
                others = name_others(found[1], definitions)
                raise InputError(f"{path}:{number}: no Definition {found[1]!r} in {registry.root} ({others})")
            return [found[1]]
    folder = path.resolve() if path.is_dir() else path.resolve().parent
    if not (folder / MANIFEST).is_file():
        return []
    manifest, home = read_manifest(folder / MANIFEST), folder.parent.name
    wanted = manifest.definitions
    named = [name for name in definitions if manifest.serves(name, home)]
    if wanted and not named:
        others = name_others(wanted[0], definitions)
        raise InputError(f"{folder / MANIFEST}: no Definition matches {', '.join(wanted)} ({others})")
    return [home] if home in named else named


def definition_line(suffix: str, definition: str) -> str:
    """The line by which a file of this suffix names its Definition."""
    return f"{'#' if suffix == '.py' else '//'} definition: {definition}\n"
