"""Find the line of a field in a JSON text."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

_decoder = json.JSONDecoder()
_blank = re.compile(r"[ \t\n\r]*")


def line_of(text: str, field: Sequence[int | str]) -> int:
    """Return the line, counted from 1, of a field in a JSON text, or of the deepest part of its path that exists.

    A path such as `("axes", "batch", "value")` names keys of objects and indices of arrays.
    """
    position = _skip(text, 0)
    for part in field:
        found = _find(text, position, part)
        if found is None:
            break
        position = found
    return text.count("\n", 0, position) + 1


def _find(text: str, position: int, part: int | str) -> int | None:
    """Return where the value of `part` begins in the object or array at `position`; None if it is missing."""
    is_object = text[position : position + 1] == "{"
    if not is_object and text[position : position + 1] != "[":
        return None
    index = 0
    position = _skip(text, position + 1)
    try:
        while text[position] not in "}]":
            key: int | str = index
            if is_object:
                key, position = _decoder.raw_decode(text, position)
                position = _skip(text, _skip(text, position) + 1)  # skip the colon
            if key == part:
                return position
            _, position = _decoder.raw_decode(text, position)
            position = _skip(text, position)
            if text[position] == ",":
                position = _skip(text, position + 1)
            index += 1
    except (ValueError, IndexError, RecursionError):
        return None  # the rest is not JSON
    return None


def _skip(text: str, position: int) -> int:
    blank = _blank.match(text, position)
    return blank.end() if blank else position
