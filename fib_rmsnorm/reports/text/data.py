"""Records as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any


def pick(record: object, *names: str) -> dict[str, Any]:
    """The named fields and properties of a record; of None, each is None."""
    return {name: None if record is None else getattr(record, name) for name in names}


def json_text(value: Any) -> str:
    """Dataclasses as objects of their fields, paths as text, and numbers for which JSON has no form as null."""
    return json.dumps(_plain(value), indent=2) + "\n"


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, Path) else value
