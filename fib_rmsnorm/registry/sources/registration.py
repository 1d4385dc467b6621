"""Turn a kernel's file into a registered Solution: a source folder with its solution.toml, and what is packed of it."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fib_rmsnorm.errors import InputError
from fib_rmsnorm.registry.files.locking import locked
from fib_rmsnorm.registry.files.regular_files import enter_folder
from fib_rmsnorm.registry.layout import check_name
from fib_rmsnorm.registry.registry import Registry
from fib_rmsnorm.registry.sources.manifest import MANIFEST
from fib_rmsnorm.registry.sources.packing import pack_folder, read_current
from fib_rmsnorm.schema import BuildSpec, Definition, Solution


def register_solution(
    registry: Registry, draft: Solution, definition: Definition, *, name: str, author: str
) -> tuple[Solution, Path]:
    """Write the sources of a draft and a solution.toml into the registry, pack them, and return Solution and folder.

    All of it is written, or nothing. Raises InputError for a name that is unsafe or taken, in which case nothing is
    overwritten, and for sources that cannot be packed.
    """
    packed = registry.layout.solution(author, definition.op_type, definition.name, check_name(name, "solution"))
    folder = packed.parent / name
    with locked(writing=[registry.root]):
        current = read_current(registry)
        taken = [(each.definition, each.author) for each in current.by_name.values() if each.name == name]
        taken += [(each.home, each.author) for each in current.faulty if each.may_make(name)]
        for other, by in taken:
            raise InputError(
                f"a Solution {name!r} exists already ({other}, by {by}); edit its sources in solutions/, which bench"
                " packs again, or choose another name"
            )
        for path in (folder, packed):
            if path.exists():
                raise InputError(f"{path} exists already; choose another name, or remove it first")
        with _all_or_nothing(registry.root, folder) as staging:
            for source in draft.sources:
                (staging / source.path).parent.mkdir(parents=True, exist_ok=True)
                (staging / source.path).write_text(source.content, encoding="utf-8")
            (staging / MANIFEST).write_text(_manifest(name, draft.spec), encoding="utf-8")
            staging.rename(folder)
            (solution,) = pack_folder(registry, folder, {definition.name: definition})
            registry.write_solution(solution, definition.op_type)
    return solution, folder


@contextmanager
def _all_or_nothing(root: Path, folder: Path) -> Iterator[Path]:
    """Yield a temporary folder, to fill and rename to `folder`; on an error, remove whatever was written or created.

    It lies in the registry's root, where no other process takes it for sources.
    """
    created = [parent for parent in folder.parents if not parent.exists()]
    try:
        place = Path(tempfile.mkdtemp(dir=root, prefix=f".{folder.name}."))
    except OSError as error:
        raise InputError(f"cannot write {folder}: {error.strerror or error}") from None
    staging = place / folder.name
    try:
        staging.mkdir()
        with enter_folder(folder.parent, root, create=True):  # which refuses links
            pass
        yield staging
    except BaseException as error:
        if not staging.exists():  # it was renamed; otherwise the folder is somebody else's
            shutil.rmtree(folder, ignore_errors=True)
        for parent in created:
            if parent.exists() and not any(parent.iterdir()):
                parent.rmdir()
        if isinstance(error, OSError):
            raise InputError(f"cannot write {folder}: {error.strerror or error}") from None
        raise
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _manifest(name: str, spec: BuildSpec) -> str:
    lines = [f"name = {_toml(name)}"]
    lines += ['# definitions = ["rmsnorm_d*"]  # for sources that serve other Definitions too', "", "[spec]"]
    lines += [f"{key} = {_toml(value)}" for key, value in spec.model_dump(mode="json").items() if value is not None]
    return "\n".join([*lines, ""])


def _toml(value: str | bool | list[str]) -> str:
    """A TOML value; strings, booleans and lists of strings are written as in JSON."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
