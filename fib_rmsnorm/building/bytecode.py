"""Where Python keeps the bytecode of packages that were installed without any, where they cannot be given it.

Such are those of uv and of many container images: read-only, or with PYTHONDONTWRITEBYTECODE set. There each process
compiles the sources of all that it imports.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from fib_rmsnorm.building.cache import cache_folder
from fib_rmsnorm.building.cache_contents import BYTECODE

_WRITABLE_BY_OTHERS = 0o022


def bytecode_variables(package: str = "torch") -> dict[str, str]:
    """Variables with which a new interpreter keeps bytecode in the cache; none if `package` has or gets its own.

    None either if the user has named a folder ($PYTHONPYCACHEPREFIX), or if others could write to that of the cache:
    whoever writes there decides what the judge runs. Processes that run Solutions may only read it.
    """
    if sys.pycache_prefix is not None or not _lacks_bytecode(package):
        return {}
    cache = cache_folder().absolute()
    folder = cache / BYTECODE / _key()
    with suppress(OSError):
        cache.mkdir(parents=True, exist_ok=True)
        for each in (folder.parent, folder):
            each.mkdir(mode=0o700, exist_ok=True)
        if all(map(_is_ours_alone, (folder, folder.parent))):
            return {"PYTHONPYCACHEPREFIX": str(folder), "PYTHONDONTWRITEBYTECODE": ""}
    return {}


def use_bytecode_cache() -> bool:
    """Do in this process, from its next import on, and in all that it starts, as `bytecode_variables` says.

    Return whether nothing is kept yet, so that this process and others will compile what they import.
    """
    variables = bytecode_variables()
    if not variables:
        return False
    os.environ.update(variables)
    sys.pycache_prefix, sys.dont_write_bytecode = variables["PYTHONPYCACHEPREFIX"], False
    return not any(Path(sys.pycache_prefix).iterdir())


def kept_bytecode() -> Path | None:
    """The folder in the cache from which this process reads bytecode; None if it reads none or the user named another.

    The user's may hold bytecode of all programs of the user; this one, of packages and of what they import.
    """
    home = cache_folder().absolute() / BYTECODE
    folder = Path(sys.pycache_prefix) if sys.pycache_prefix else None
    return folder if folder and folder.is_relative_to(home) else None


def describe_missing_bytecode(package: str = "torch") -> str | None:
    """What it costs that `package` was installed without bytecode, and how all packages beside it get theirs."""
    source = _find_source(package)
    if source is None or _beside(source).exists() or not (kept_bytecode() or _lacks_bytecode(package)):
        return None
    return (
        f"{package} has no bytecode beside it, so that each process compiles what it imports; who may write there runs"
        f" once: {sys.executable} -m compileall -q -j 0 {source.parents[1]}"
    )


def _lacks_bytecode(package: str) -> bool:
    """Whether a package was installed without bytecode and the interpreter will not write it beside the sources."""
    source = _find_source(package)
    if source is None or (cached := _beside(source)).exists():
        return False
    folder = cached.parent if cached.parent.exists() else source.parent
    return sys.dont_write_bytecode or not os.access(folder, os.W_OK)


def _find_source(package: str) -> Path | None:
    spec = find_spec(package)
    return Path(spec.origin) if spec and spec.origin else None


def _beside(source: Path) -> Path:
    """Where Python keeps bytecode unless it is told another place."""
    return source.parent / "__pycache__" / f"{source.stem}.{sys.implementation.cache_tag}.pyc"


def _key() -> str:
    """A digest of what is installed: files of two versions of a package may have the same size and date."""
    named = [sys.implementation.cache_tag or "", *sys.path]
    for entry in map(Path, filter(None, sys.path)):
        with suppress(OSError):
            named += sorted(path.name for path in entry.glob("*.dist-info"))
    return sha256("\0".join(named).encode(errors="surrogateescape")).hexdigest()[:32]


def _is_ours_alone(folder: Path) -> bool:
    found = folder.lstat()
    return (
        folder.is_dir()
        and not folder.is_symlink()
        and found.st_uid == os.getuid()
        and not (found.st_mode & _WRITABLE_BY_OTHERS)
    )
