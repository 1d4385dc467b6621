"""Rows as CSV that a spreadsheet may open, whoever wrote the names in them."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

# The wide forms begin a formula in Japanese and Chinese spreadsheets.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """A line of names, and one for each row; a row without a column has an empty cell there."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _no_formula(value) for name, value in row.items()} for row in rows)
    return text.getvalue()


def _no_formula(value: Any) -> Any:
    """A value that a spreadsheet takes for text; numbers stay numbers."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
