"""Damage records at random, as bad disks, other tools and strangers do."""

from __future__ import annotations

import copy
import json
from random import Random
from typing import Any

_TEXTS = ["", "\x1b[2J\x07", "\u202ea\u2066", "a\nb", "=1+1", "<b>", "../x", "NaN", "{}", "é" * 300, "\ud800", "%s{0}"]
_NUMBERS = [0, -1, 1, 2**31, 2**63, 2**64, -(2**63), 10**30, 0.0, -0.0, 1e-320, 1e308, -1e308, 0.5, True, False]
_ODD = [None, [], {}, [[]], [None], {"": ""}, {"0": "many"}, float("nan"), float("inf"), -float("inf")]
_BYTES = [b"\xff", b"\x00", b"\n", b"[" * 2000, b'"', b"{", b"}", b",", b"\\u0000", b"\xef\xbb\xbf", b"1" * 5000, b" "]


def damage(record: dict[str, Any], random: Random) -> bytes:
    """The JSON of a record with one to three values changed; in one of five, its bytes are changed instead."""
    if random.random() < 0.2:
        return damage_bytes(json.dumps(record).encode(), random)
    changed = copy.deepcopy(record)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        _damage_value(changed, random)
    return json.dumps(changed).encode()


def _damage_value(record: dict[str, Any], random: Random) -> None:
    places = list(_places(record))
    if not places:
        return
    holder, key = random.choice(places)
    what = random.randrange(6)
    if what == 0:
        del holder[key]
    elif what == 1:  # what another place holds
        other, name = random.choice(places)
        holder[key] = copy.deepcopy(other[name])
    elif what == 2 and isinstance(holder, dict):
        holder[random.choice(_TEXTS)] = holder.pop(key)
    else:
        holder[key] = random.choice(random.choice((_TEXTS, _NUMBERS, _ODD)))


def _places(value: Any) -> Any:
    """(container, key) of everything in a JSON value."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in pairs:
        yield value, key
        yield from _places(below)


def damage_bytes(data: bytes, random: Random) -> bytes:
    for _ in range(random.randrange(1, 4)):
        place = random.randrange(len(data) + 1)
        what = random.randrange(4)
        if what == 0:
            data = data[:place]
        elif what == 1:
            data = data[:place] + random.choice(_BYTES) + data[place:]
        elif what == 2:
            data = data[:place] + bytes([random.randrange(256)]) + data[place + 1 :]
        else:
            data = data[:place] + data[place + random.randrange(1, 30) :]
    return data
