"""Records as JSON, and as CSV that a spreadsheet may open, whoever wrote the names in them."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from fib_rmsnorm.reports.text.units import assignments

# The wide forms begin a formula in Japanese and Chinese spreadsheets.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def pick(record: object, *names: str) -> dict[str, Any]:
    """The named fields and properties of a record; of None, each is None."""
    return {name: None if record is None else getattr(record, name) for name in names}


def json_text(value: Any) -> str:
    """Dataclasses as objects of their fields, paths as text, and numbers for which JSON has no form as null."""
    return json.dumps(_plain(value), indent=2) + "\n"


def csv_text(rows: Iterable[Mapping[str, Any]]) -> str:
    """A line of names, and one for each row; a row without a column has an empty cell there."""
    listed = [_plain(row) for row in rows]
    text = io.StringIO()
    writer = csv.DictWriter(text, dict.fromkeys(name for row in listed for name in row), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _cell(value) for name, value in row.items()} for row in listed)
    return text.getvalue()


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


def _cell(value: Any) -> Any:
    """Named values as text, such as `batch=8`; text that a spreadsheet does not compute; numbers as they are."""
    told = assignments(value) if isinstance(value, dict) else value
    return f"'{told}" if isinstance(told, str) and told.startswith(_FORMULA) else told
