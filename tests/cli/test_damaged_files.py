"""Files damaged at random: every command that reads ends with a code and a line, never with a traceback."""

import json
import re
from random import Random, SystemRandom
from typing import Any

import pytest

from support import full_registry as full
from support.paths import PUBLISHED

OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
DOCUMENTS = (("report", "--output", "report.html"), ("validate",))
MANIFEST_FILE = f"{full.PYTHON_FOLDER}/solution.toml"
OTHER_READERS = (
    ("report", "--summary"),
    ("report", "--against", "*"),
    ("deploy", "traces"),
    ("merge", ".", full.CUDA_TRACES),
)
OFTEN = [pytest.mark.fuzz, pytest.mark.timeout(900)]


TEXTS = ["", "\x1b[2J\x07", "\u202ea\u2066", "a\nb", "=1+1", "<b>", "../x", "NaN", "{}", "é" * 300, "\ud800", "%s{0}"]
NUMBERS = [0, -1, 1, 2**31, 2**63, 2**64, -(2**63), 10**30, 0.0, -0.0, 1e-320, 1e308, -1e308, 0.5, True, False]
ODD = [None, [], {}, [[]], [None], {"": ""}, {"0": "many"}, float("nan"), float("inf"), -float("inf")]
BYTES = [b"\xff", b"\x00", b"\n", b"[" * 2000, b'"', b"{", b"}", b",", b"\\u0000", b"\xef\xbb\xbf", b"1" * 5000, b" "]


def damage(record: Any, random: Random) -> bytes:
    """The JSON of a record with one to three values changed; in one of five, its bytes are changed instead."""
    if random.random() < 0.2:
        return damage_bytes(json.dumps(record).encode(), random)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        record = damage_value(record, random)
    return json.dumps(record).encode()


def damage_value(value: Any, random: Random) -> Any:
    """The value with something in it changed, renamed or missing."""
    if not isinstance(value, dict | list) or not value or random.random() < 0.1:
        return random.choice(random.choice((TEXTS, NUMBERS, ODD)))
    changed = value.copy()
    key = random.choice([*value] if isinstance(value, dict) else range(len(value)))
    what = random.random()
    if what < 0.1:
        del changed[key]
    elif what < 0.2 and isinstance(changed, dict):
        changed[random.choice(TEXTS)] = changed.pop(key)
    else:
        changed[key] = damage_value(value[key], random)
    return changed


def damage_bytes(data: bytes, random: Random) -> bytes:
    for _ in range(random.randrange(1, 4)):
        place = random.randrange(len(data) + 1)
        new = random.choice((b"", random.choice(BYTES), bytes([random.randrange(256)])))
        data = data[:place] + new + data[place + random.choice((0, 1, random.randrange(30), len(data))) :]
    return data


def list_seeds(number: int) -> list[int]:
    """The same every time where they are few; of many, other ones each time, as repeating them would find no more."""
    return [*range(number)] if number < 10 else [SystemRandom().randrange(2**32) for _ in range(number)]


def assert_sound(fib, command, seed) -> None:
    outcome = fib(*command)
    assert outcome.code in (0, 1, 2), seed
    assert not OBEYED.search(outcome.out + outcome.err), seed
    assert outcome.code != 2 or outcome.err.startswith("fib-rmsnorm: "), seed


@pytest.fixture
def records(full_registry) -> dict[str, list[dict]]:
    """The records by their file, and Traces that this tool has really measured."""
    files = (full.DEFINITION_FILE, full.PYTHON_FILE, full.WORKLOAD_FILE, full.CUDA_TRACES, full.PYTHON_TRACES)
    texts = {file: (full_registry.root / file).read_text() for file in files}
    found = {
        file: [json.loads(each) for each in (text.splitlines() if file.endswith("l") else [text])]
        for file, text in texts.items()
    }
    found["published"] = [json.loads(line) for line in PUBLISHED.read_text().splitlines()[::12]]
    return found


@pytest.mark.parametrize(
    ("examples", "commands"),
    [(1, full.ANALYSES + DOCUMENTS), pytest.param(30, full.ANALYSES + DOCUMENTS + OTHER_READERS, marks=OFTEN)],
)
def test_no_damaged_trace_stops_an_analysis(fib, full_registry, records, examples, commands):
    """Each reader gets many damaged Traces at once: what it cannot read, it skips."""
    for seed in list_seeds(examples):
        random = Random(seed)
        for file in (full.CUDA_TRACES, full.PYTHON_TRACES):
            damaged = (damage(random.choice(records[random.choice((file, "published"))]), random) for _ in range(100))
            (full_registry.root / file).write_bytes(b"\n".join(damaged))
        for command in commands:
            assert_sound(fib, command, seed)


@pytest.mark.parametrize("examples", [9, pytest.param(100, marks=OFTEN)])
def test_no_damaged_record_is_a_traceback(fib, full_registry, records, examples):
    """Of a damaged file or manifest, a command names the first fault, and skips it or stops."""
    for seed in list_seeds(examples):
        random = Random(seed)
        names = [MANIFEST_FILE, *(name for name in records if name != "published")]
        name = names[seed % len(names)]
        file = full_registry.root / name
        before = file.read_bytes()
        if name == MANIFEST_FILE:
            file.write_bytes(damage_bytes(before, random))
        else:
            lines = [json.dumps(record).encode() for record in records[name]]
            file.write_bytes(b"\n".join([damage(records[name][0], random), *lines[1:]]))
        for command in (("solve",), *random.sample(full.CATALOGUES, 2)):
            assert_sound(fib, command, seed)
        file.write_bytes(before)
        fib("solve")
