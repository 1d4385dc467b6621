"""A Solution's sources on disk, in a folder named for their content."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from pathlib import Path

from fib_rmsnorm.schema import Solution


def content_key(solution: Solution, **context: object) -> str:
    """A hex digest of the sources and of whatever else decides what is built from them."""
    identity = {
        "sources": {source.path: source.content for source in solution.sources},
        "context": context,
    }
    return hashlib.sha256(json.dumps(identity, sort_keys=True, default=str).encode()).hexdigest()[:32]


def write_sources(solution: Solution, folder: Path) -> None:
    """Write the sources into `folder` unless it is there; never half, also when two processes do it at once."""
    if folder.exists():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    try:
        for source in solution.sources:  # the schema has refused paths that lead out
            path = staging / source.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(source.content, encoding="utf-8")
        staging.rename(folder)
    except OSError:
        if not folder.exists():
            raise
    finally:
        shutil.rmtree(staging, ignore_errors=True)
